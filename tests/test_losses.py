"""The sliced cross-entropy against plain torch, in float64 and in half precision."""

from typing import Dict, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from helpers.half import PRODUCT_DTYPES
from torch import Tensor

from fairseq_gmlm.losses import cross_entropy, gather

N, D, V = 37, 6, 11


def inputs(dtype: torch.dtype = torch.float64, n: int = N) -> Dict[str, Tensor]:
    """Random states, output matrix, bias, targets and token weights (some of them zero)."""
    rng = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.randn(*shape, generator=rng, dtype=torch.float64)  # noqa: E731
    return {
        "hidden": (2 * draw(n, D)).to(dtype).requires_grad_(),
        "weight": draw(V, D).to(dtype).requires_grad_(),
        "bias": draw(V).to(dtype).requires_grad_(),
        "target": torch.randint(V, (n,), generator=rng),
        "token_weight": torch.rand(n, generator=rng, dtype=torch.float64).round(decimals=1),
    }


def plain(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    token_weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Textbook version: loss, nll, correct."""
    logits = F.linear(hidden, weight, bias)
    w = torch.ones(len(target)) if token_weight is None else token_weight
    each = F.cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="none")
    each = each + z_loss * logits.exp().sum(-1).log() ** 2
    nll = F.cross_entropy(logits, target, reduction="none")
    return (each * w).sum(), (nll * w).sum(), (logits.argmax(-1) == target).sum()


OPTIONS = [
    {},
    {"label_smoothing": 0.1},
    {"label_smoothing": 0.9},
    {"z_loss": 1e-2},
    {"label_smoothing": 0.2, "z_loss": 0.5},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("slice_size", [1, 5, 37, 1024])
def test_values_and_gradients(options, weighted: bool, biased: bool, slice_size: int) -> None:
    given = inputs()
    if not weighted:
        given["token_weight"] = None
    if not biased:
        given["bias"] = None
    leaves = [given[k] for k in ("hidden", "weight", "bias") if given[k] is not None]
    expected = plain(**given, **options)
    wanted = torch.autograd.grad(expected[0] * 3.0, leaves)
    found = cross_entropy(**given, **options, slice_size=slice_size)
    torch.testing.assert_close(found.loss, expected[0])
    torch.testing.assert_close(found.nll, expected[1])
    assert int(found.correct) == int(expected[2])
    torch.testing.assert_close(torch.autograd.grad(found.loss * 3.0, leaves), wanted)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_against_finite_differences(options) -> None:
    given = inputs(n=7)
    target, token_weight = given["target"], given["token_weight"]

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return cross_entropy(
            hidden, weight, target, token_weight, bias, **options, slice_size=3
        ).loss

    assert torch.autograd.gradcheck(loss, (given["hidden"], given["weight"], given["bias"]))


@pytest.mark.parametrize("only", ["hidden", "weight", "bias"])
def test_a_single_input_may_want_a_gradient(only: str) -> None:
    given = inputs()
    for name in ("hidden", "weight", "bias"):
        if name != only:
            given[name] = given[name].detach()
    expected = torch.autograd.grad(plain(**given)[0], given[only])
    torch.testing.assert_close(
        torch.autograd.grad(cross_entropy(**given).loss, given[only]), expected
    )


def test_without_gradients_nothing_is_computed_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs()
    expected = cross_entropy(**given)
    calls = []
    original = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *a, **k: calls.append(1) or original(*a, **k))
    with torch.no_grad():
        found = cross_entropy(**given)
    assert not calls
    assert not found.loss.requires_grad
    torch.testing.assert_close(found.loss, expected.loss.detach())


@pytest.mark.parametrize("dtype", PRODUCT_DTYPES)
def test_half_precision_states_give_float32_sums(dtype: torch.dtype) -> None:
    given = inputs(dtype)
    reference = {
        k: v.detach().double().requires_grad_(v.requires_grad) if v.is_floating_point() else v
        for k, v in given.items()
    }
    found, expected = cross_entropy(**given), plain(**reference)
    # The logits are rounded to the short type once; everything after that is float32.
    assert found.loss.dtype == torch.float32
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(found.loss.double(), expected[0], rtol=tolerance, atol=0)
    found.loss.backward()
    expected[0].backward()
    for name in ("hidden", "weight", "bias"):
        assert given[name].grad.dtype == dtype
        close = (given[name].grad.double() - reference[name].grad).norm()
        assert close <= tolerance * reference[name].grad.norm(), name


def test_autocast_rounds_the_states_only() -> None:
    given = inputs(torch.float32)
    rounded = {**given, "hidden": given["hidden"].bfloat16()}
    expected = cross_entropy(**rounded).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cross_entropy(**given).loss
    assert found.dtype == torch.float32
    assert float(found) == float(expected)
    found.backward()
    assert given["weight"].grad.dtype == torch.float32


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_large_logits_stay_finite(scale: float) -> None:
    hidden = (torch.eye(3) * scale).requires_grad_()
    weight = torch.eye(3).mul(100).requires_grad_()
    out = cross_entropy(hidden, weight, torch.tensor([0, 1, 2]), label_smoothing=0.1)
    out.loss.backward()
    assert out.loss.isfinite() and hidden.grad.isfinite().all() and weight.grad.isfinite().all()
    assert int(out.correct) == 3


def test_no_tokens_give_zero_with_a_graph() -> None:
    given = inputs(torch.float32, n=0)
    out = cross_entropy(**given, label_smoothing=0.1, z_loss=1e-4)
    assert float(out.loss) == float(out.nll) == float(out.correct) == 0.0
    out.loss.backward()
    assert given["hidden"].grad.shape == (0, D)
    assert not given["weight"].grad.any()
    assert not given["bias"].grad.any()


def test_zero_weights_give_zero_gradients() -> None:
    given = inputs(torch.float32)
    given["token_weight"] = torch.zeros(N)
    out = cross_entropy(**given)
    out.loss.backward()
    assert float(out.loss) == 0.0
    assert not given["hidden"].grad.any()


def test_boolean_weights_count_as_numbers() -> None:
    given = inputs(torch.float32)
    where = given["token_weight"] > 0.5
    found = cross_entropy(**{**given, "token_weight": where}).loss
    expected = cross_entropy(**{**given, "token_weight": where.float()}).loss
    assert float(found) == float(expected)


def test_backward_twice_adds_up() -> None:
    given = inputs(torch.float32)
    out = cross_entropy(**given)
    out.loss.backward(retain_graph=True)
    once = given["weight"].grad.clone()
    out.loss.backward()
    torch.testing.assert_close(given["weight"].grad, 2 * once)


def test_gather_takes_the_true_places_in_order() -> None:
    states = torch.arange(12.0).view(2, 3, 2)
    where = torch.tensor([[True, False, True], [False, True, False]])
    hidden, index = gather(states, where)
    assert index.tolist() == [0, 2, 4]
    assert hidden.tolist() == [[0, 1], [4, 5], [8, 9]]


def test_gather_of_nothing_keeps_the_width() -> None:
    hidden, index = gather(torch.zeros(2, 3, 5), torch.zeros(2, 3, dtype=torch.bool))
    assert hidden.shape == (0, 5) and index.shape == (0,)
