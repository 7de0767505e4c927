"""Order of measuring; the times themselves are not tested."""

from types import SimpleNamespace
from typing import Dict, List

import pytest

from fairseq_gmlm.comparison.measuring import (
    latencies,
    measure_throughput,
    percentile,
    spread,
    throughputs,
)
from fairseq_gmlm.comparison.system import Output


class FakeDataset:
    """Sentences of given sizes."""

    def __init__(self, sizes: List[int]) -> None:
        self.src_sizes = sizes

    def __len__(self) -> int:
        return len(self.src_sizes)


class FakeSystem:
    """Notes what it is asked to translate."""

    def __init__(self, name: str, sizes: List[int], calls: List) -> None:
        self.spec = SimpleNamespace(name=name)
        self.dataset = FakeDataset(sizes)
        self.calls = calls

    def fits(self, number):
        return True

    def collate(self, indices: List[int]) -> List[int]:
        return list(indices)

    def translate(self, batch: List[int]) -> List[int]:
        self.calls.append((self.spec.name, tuple(batch)))
        return batch

    def outputs(self, batch: List[int], hypotheses: List[int]) -> Dict[int, Output]:
        return {i: Output([str(h)], 1) for i, h in zip(batch, hypotheses)}


def test_throughput_sorts_by_length_and_restores_the_order() -> None:
    calls, bars = [], []
    system = FakeSystem("a", [5, 1, 3, 2], calls)
    outputs, rate = measure_throughput(system, 2, 3, bars.append)
    assert [o.tokens for o in outputs] == [["0"], ["1"], ["2"], ["3"]]
    once = [("a", (1, 3)), ("a", (2, 0))]
    assert calls == [("a", (2, 0)), *once * 3]  # warm-up first
    assert bars == ["a"] * 6
    assert rate > 0


def test_latency_takes_turns_and_spreads_over_the_split() -> None:
    calls: List = []
    systems = [FakeSystem(name, [1] * 8, calls) for name in "ab"]
    chosen, times = latencies(systems, 4, lambda _: None)
    assert chosen == [1, 3, 5, 7]
    assert [len(each) for each in times] == [4, 4]
    timed = calls[6:]  # three sentences of warm-up each
    assert timed == [
        *[("a", (1,)), ("b", (1,)), ("b", (3,)), ("a", (3,))],
        *[("a", (5,)), ("b", (5,)), ("b", (7,)), ("a", (7,))],
    ]


def test_latency_covers_the_lengths() -> None:
    system = FakeSystem("a", [9, 1, 2, 3, 8, 7, 4, 6], [])
    chosen, _ = latencies([system], 2, lambda _: None)
    assert chosen == [3, 4]  # sizes 3 and 8: the third and the seventh of eight


def test_throughput_takes_turns_batch_by_batch() -> None:
    calls, bars = [], []
    systems = [FakeSystem(name, [4, 3, 2, 1], calls) for name in "ab"]
    rates = throughputs(systems, 2, 2, 0, bars.append)
    assert [len(each) for each in rates] == [2, 2] and min(min(each) for each in rates) > 0
    warm = [("a", (3, 2)), ("a", (1, 0)), ("b", (3, 2)), ("b", (1, 0))]
    assert calls[:4] == warm
    once = [("a", (3, 2)), ("b", (3, 2)), ("b", (1, 0)), ("a", (1, 0))]
    assert calls[4:] == [*once, *warm, *once]
    assert len(bars) == 4


def test_spread_takes_even_steps_or_all() -> None:
    assert spread("abcdef", 3) == ["b", "d", "f"]
    assert spread("abc", 0) == spread("abc", 9) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([1.0], 0.95, 1.0), (list(range(1, 101)), 0.95, 95), ([3, 1, 2], 0.5, 2)],
)
def test_percentile_is_a_value_of_the_sample(values, share, expected) -> None:
    assert percentile(values, share) == expected
