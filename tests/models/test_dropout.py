"""Dropout with bits of our own: unbiased, repeatable, independent, and torch's where it is."""

import math

import pytest
import torch

from fairseq_gmlm.models.dropout import drop


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_zeros_are_as_many_as_asked_for_and_the_mean_stays(dtype, probability) -> None:
    torch.manual_seed(3)
    count = 399_999  # no multiple of the four decisions of a draw
    out = drop(torch.ones(count, dtype=dtype), probability, True)
    assert out.dtype == dtype
    values = out.unique()
    assert len(values) == 2 and values[0] == 0
    assert float(values[1]) == pytest.approx(1 / (1 - probability), rel=8e-3)
    zeros = int(out.eq(0).sum())
    sigma = math.sqrt(count * probability * (1 - probability))
    assert abs(zeros - count * probability) < 4 * sigma + count / 65536


def test_decisions_of_neighbours_are_independent() -> None:
    torch.manual_seed(4)
    kept = drop(torch.ones(400_000), 0.5, True).ne(0).double() - 0.5
    for distance in (1, 2, 3, 4, 8, 64):
        correlation = 4 * (kept[:-distance] * kept[distance:]).mean()
        assert abs(float(correlation)) < 4 / math.sqrt(400_000)


def test_the_gradient_goes_where_the_values_went() -> None:
    torch.manual_seed(5)
    x = torch.randn(7, 11, 3, requires_grad=True)
    out = drop(x.transpose(0, 1), 0.4, True)
    assert out.shape == (11, 7, 3)
    out.sum().backward()
    assert torch.equal(x.grad.ne(0), out.detach().transpose(0, 1).ne(0))
    torch.testing.assert_close(x.grad * x.detach(), out.detach().transpose(0, 1))


def test_the_seed_decides() -> None:
    x = torch.ones(1000)
    torch.manual_seed(6)
    first, second = drop(x, 0.5, True), drop(x, 0.5, True)
    torch.manual_seed(6)
    assert torch.equal(drop(x, 0.5, True), first)
    assert not torch.equal(first, second)


def test_nothing_happens_outside_training_or_at_zero() -> None:
    x = torch.randn(5)
    assert drop(x, 0.5, False) is x
    assert drop(x, 0.0, True) is x
    assert not drop(x, 1.0, True).any()
    assert drop(torch.empty(0, 4), 0.5, True).shape == (0, 4)
