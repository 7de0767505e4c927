"""Bootstrap intervals: exact cases, and the normal approximation where it holds."""

import pytest
import torch

from fairseq_gmlm.analysis.intervals import Bootstrap


def test_ratio_of_sums_and_its_spread() -> None:
    rng = torch.Generator().manual_seed(0)
    found = torch.bernoulli(torch.full((400,), 0.3), generator=rng)
    rate = Bootstrap(4000, seed=2).rate(found.tolist(), [1.0] * 400)
    assert rate.value == pytest.approx(float(found.mean()))
    error = 1.96 * float(found.std(unbiased=False)) / 20
    assert rate.low == pytest.approx(rate.value - error, abs=0.004)
    assert rate.high == pytest.approx(rate.value + error, abs=0.004)


def test_resamples_are_sums_of_drawn_sentences() -> None:
    """With two sentences a resample is one of three; the sums are those of what was drawn."""
    values = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    sums = Bootstrap(500, seed=1).sums(values)
    assert sums.shape == (500, 2)
    assert {tuple(row) for row in sums.tolist()} == {(2.0, 20.0), (4.0, 40.0), (6.0, 60.0)}
    torch.testing.assert_close(sums[:, 1], 10 * sums[:, 0])


def test_differences_are_paired() -> None:
    """The same sentences are drawn on both sides: a constant gap has no spread."""
    first = torch.tensor([[2.0, 1.0], [5.0, 1.0], [9.0, 1.0]])
    second = torch.tensor([[1.0, 1.0], [4.0, 1.0], [8.0, 1.0]])
    rate = Bootstrap(200).difference(first, second)
    assert (rate.value, rate.low, rate.high) == pytest.approx((1.0, 1.0, 1.0))


def test_nothing_to_count() -> None:
    empty = Bootstrap(10).rate([0, 0], [0, 0])
    assert (empty.value, empty.low, empty.high) == (None, None, None)
    # One sentence alone has a case: a resample may miss it, so there is no interval.
    rare = Bootstrap(200).rate([1, 0], [2, 0])
    assert (rare.value, rare.low, rare.high) == (0.5, None, None)
    alone = Bootstrap(20).rate([1], [2])
    assert (alone.value, alone.low) == (0.5, None)
    assert Bootstrap(10).difference(torch.zeros(2, 2), torch.ones(2, 2)).value is None
    with pytest.raises(ValueError, match="--bootstrap"):
        Bootstrap(0)
