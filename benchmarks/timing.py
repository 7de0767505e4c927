"""Timing of several systems side by side: in turn, after a warm-up, compared pair by pair."""

import statistics
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Sequence

import torch

from fairseq_gmlm.comparison.measuring import percentile


@dataclass(frozen=True)
class Times:
    """Milliseconds of the repeated runs of one system.

    Attributes:
        values: in the order of the rounds, so that equal places were measured side by side.
    """

    values: Sequence[float]

    @property
    def median(self) -> float:
        """Median, ms."""
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        """95th percentile, ms."""
        return percentile(self.values, 0.95)

    @property
    def spread(self) -> float:
        """Distance of the quartiles, ms."""
        return percentile(self.values, 0.75) - percentile(self.values, 0.25)


@dataclass(frozen=True)
class Ratio:
    """How many times as long one system takes as another.

    Attributes:
        median: of the ratios of paired runs.
        low, high: their quartiles.
    """

    median: float
    low: float
    high: float


def paired_ratio(slow: Times, fast: Times) -> Ratio:
    """Ratios ``slow / fast`` of the runs that were measured in the same round."""
    ratios = [a / b for a, b in zip(slow.values, fast.values)]
    return Ratio(statistics.median(ratios), percentile(ratios, 0.25), percentile(ratios, 0.75))


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def milliseconds(work: Callable[[], object]) -> float:
    """One run, the device's queue included."""
    _synchronize()
    start = time.perf_counter()
    work()
    _synchronize()
    return (time.perf_counter() - start) * 1e3


def alternate(
    systems: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: int = 1,
    progress: Callable[[str], None] = lambda name: None,
) -> Dict[str, Times]:
    """Run every system once a round, beginning with another one each time.

    A slow moment of the machine so hits all of them alike, and :func:`paired_ratio` leaves it out.

    Args:
        systems: what to run, by name.
        rounds: timed rounds.
        warm_up: runs of each system before them.
        progress: called with a name after each timed run.
    """
    for work in systems.values():
        for _ in range(warm_up):
            work()
    found: Dict[str, List[float]] = {name: [] for name in systems}
    order = list(systems)
    for turn in range(rounds):
        start = turn % len(order)
        for name in [*order[start:], *order[:start]]:
            found[name].append(milliseconds(systems[name]))
            progress(name)
    return {name: Times(values) for name, values in found.items()}
