"""Timing: every system on the same sentences, in turn, after a warm-up."""

import statistics
import time
from typing import Callable, Dict, List, Sequence, Tuple

import torch

from fairseq_gmlm.comparison.system import Output, SplitSystem
from fairseq_gmlm.errors import UserError

Progress = Callable[[str], None]


def by_length(systems: Sequence[SplitSystem]) -> List[int]:
    """Sentences that every system can read, from short to long, so that padding wastes little.

    Raises:
        UserError: there is none.
    """
    first = systems[0].dataset
    readable = [i for i in range(len(first)) if all(system.fits(i) for system in systems)]
    if not readable:
        raise UserError(
            f"'split: {systems[0].split}': every source is longer than a model's position table"
        )
    return sorted(readable, key=lambda i: (first.src_sizes[i], i))


def spread(order: Sequence[int], count: int) -> List[int]:
    """``count`` of the items (0: all), evenly spread, in their order."""
    total = len(order)
    count = min(count or total, total)
    return [order[int((i + 0.5) * total / count)] for i in range(count)]


def in_batches(order: Sequence[int], size: int) -> List[List[int]]:
    """Neighbours together, ``size`` at a time."""
    return [list(order[i : i + size]) for i in range(0, len(order), size)]


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _timed(system: SplitSystem, batch: Dict) -> Tuple[float, List]:
    _synchronize()
    start = time.perf_counter()
    hypotheses = system.translate(batch)
    _synchronize()
    return time.perf_counter() - start, hypotheses


def translate_split(
    system: SplitSystem, batch_size: int, progress: Progress
) -> Tuple[List[Output], float]:
    """Translate the whole split in batches of similar length.

    Args:
        system: what to run.
        batch_size: sentences a batch, sorted by source length.
        progress: called with the system's name after each batch.

    Returns:
        the outputs in the order of the split (empty for sources that the model has no positions
        for), and the seconds that translating took.
    """
    found: Dict[int, Output] = {}
    seconds = 0.0
    for indices in in_batches(by_length([system]), batch_size):
        batch = system.collate(indices)
        spent, hypotheses = _timed(system, batch)
        seconds += spent
        found.update(system.outputs(batch, hypotheses))
        progress(system.spec.name)
    nothing = Output([], 0)
    return [found.get(i, nothing) for i in range(len(system.dataset))], seconds


def measure_throughput(
    system: SplitSystem, batch_size: int, repeats: int, progress: Progress
) -> Tuple[List[Output], float]:
    """Translate the whole split ``repeats`` times with one system, after a warm-up.

    Returns:
        the outputs in the order of the split, and sentences per second (median of the runs).
    """
    order = by_length([system])
    batches = in_batches(order, batch_size)
    system.translate(system.collate(batches[len(batches) // 2]))  # warm-up
    runs = [translate_split(system, batch_size, progress) for _ in range(repeats)]
    return runs[0][0], statistics.median(len(order) / seconds for _, seconds in runs)


def take_turns(
    systems: Sequence[SplitSystem], batches: Sequence[List[int]], progress: Progress
) -> List[List[float]]:
    """Seconds of each batch, for each system in the order given.

    The systems take turns batch by batch, and the one that begins changes, so that a slow moment
    of the machine hits all of them alike.
    """
    times: List[List[float]] = [[] for _ in systems]
    middle = len(batches) // 2
    for system in systems:  # warm-up
        for indices in batches[max(0, middle - 1) : middle + 2]:
            system.translate(system.collate(indices))
    numbers = list(range(len(systems)))
    for turn, indices in enumerate(batches):
        start = turn % len(systems)
        for number in [*numbers[start:], *numbers[:start]]:
            spent, _ = _timed(systems[number], systems[number].collate(indices))
            times[number].append(spent)
        progress(f"{len(indices)} at a time")
    return times


def throughputs(
    systems: Sequence[SplitSystem],
    batch_size: int,
    repeats: int,
    sentences: int,
    progress: Progress,
) -> List[List[float]]:
    """Sentences per second of each repeat, for each system in the order given.

    Args:
        batch_size: sentences a batch, sorted by source length.
        sentences: how many of the split, evenly spread over the lengths; 0: all.
    """
    order = spread(by_length(systems), sentences)
    batches = in_batches(order, batch_size)
    rates: List[List[float]] = [[] for _ in systems]
    for _ in range(repeats):
        for found, times in zip(rates, take_turns(systems, batches, progress)):
            found.append(len(order) / sum(times))
    return rates


def latencies(
    systems: Sequence[SplitSystem], sentences: int, progress: Progress
) -> Tuple[List[int], List[List[float]]]:
    """Sentences timed one by one, and the seconds of each, for each system in the order given.

    They are spread evenly over the lengths of the sources, so that few stand for all, and timed in
    the order of the split.
    """
    chosen = sorted(spread(by_length(systems), sentences))
    return chosen, take_turns(systems, [[number] for number in chosen], progress)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(len(ordered) * share + 0.5) - 1))]
