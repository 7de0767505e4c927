"""Side-by-side timing."""

from timing import Times, alternate, paired_ratio


def test_systems_take_turns_and_the_first_changes() -> None:
    calls = []
    systems = {name: (lambda n=name: calls.append(n)) for name in "abc"}
    times = alternate(systems, rounds=3, warm_up=1)
    assert calls == [*"abc", *"abc", *"bca", *"cab"]
    assert all(len(t.values) == 3 and min(t.values) >= 0 for t in times.values())


def test_ratios_are_taken_pair_by_pair() -> None:
    # The second round fell into a slow moment, which hit both.
    ratio = paired_ratio(Times([30.0, 300.0, 33.0, 40.0]), Times([10.0, 100.0, 10.0, 10.0]))
    assert (round(ratio.median, 6), ratio.low, ratio.high) == (3.15, 3.0, 3.3)


def test_summary() -> None:
    times = Times([float(i) for i in range(1, 21)])
    assert (times.median, times.p95, times.spread) == (10.5, 19.0, 10.0)
