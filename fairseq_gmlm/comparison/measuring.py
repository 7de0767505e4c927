"""Timing: every system on the same sentences, in turn, after a warm-up."""

import statistics
import time
from typing import Callable, Dict, List, Sequence, Tuple

import torch

from fairseq_gmlm.comparison.system import Output, System

Progress = Callable[[str], None]


def by_length(system: System) -> List[int]:
    """Sentence numbers from short to long sources, so that batches waste little padding."""
    return sorted(range(len(system.dataset)), key=lambda i: (system.dataset.src_sizes[i], i))


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _timed(system: System, batch: Dict) -> Tuple[float, List]:
    _synchronize()
    start = time.perf_counter()
    hypotheses = system.translate(batch)
    _synchronize()
    return time.perf_counter() - start, hypotheses


def measure_throughput(
    system: System, batch_size: int, repeats: int, progress: Progress
) -> Tuple[List[Output], float]:
    """Translate the whole split in batches.

    Args:
        system: what to time.
        batch_size: sentences a batch, sorted by source length.
        repeats: timed runs.
        progress: called with the system's name after each batch.

    Returns:
        the outputs in the order of the split, and sentences per second (median of the runs).
    """
    order = by_length(system)
    batches = [system.collate(order[i : i + batch_size]) for i in range(0, len(order), batch_size)]
    system.translate(batches[len(batches) // 2])  # warm-up
    rates, found = [], {}
    for _ in range(repeats):
        seconds = 0.0
        for batch in batches:
            spent, hypotheses = _timed(system, batch)
            seconds += spent
            if len(found) < len(order):
                found.update(system.outputs(batch, hypotheses))
            progress(system.spec.name)
        rates.append(len(order) / seconds)
    return [found[i] for i in range(len(order))], statistics.median(rates)


def measure_latency(
    systems: Sequence[System], sentences: int, progress: Progress
) -> Dict[str, List[float]]:
    """Seconds per sentence at batch 1, for each system by name.

    The systems take turns sentence by sentence, and the one that begins changes, so that a slow
    moment of the machine hits all of them alike.
    """
    total = len(systems[0].dataset)
    count = min(sentences, total)
    chosen = [int((i + 0.5) * total / count) for i in range(count)]
    times: Dict[str, List[float]] = {system.spec.name: [] for system in systems}
    for system in systems:  # warm-up
        for number in chosen[:3]:
            system.translate(system.collate([number]))
    for turn, number in enumerate(chosen):
        start = turn % len(systems)
        for system in [*systems[start:], *systems[:start]]:
            spent, _ = _timed(system, system.collate([number]))
            times[system.spec.name].append(spent)
        progress("latency")
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(len(ordered) * share + 0.5) - 1))]
