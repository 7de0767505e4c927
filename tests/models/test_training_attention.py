"""Attention in three steps, for half precision on a CPU, against torch's own in float64."""

from typing import Optional

import pytest
import torch
import torch.nn.functional as F
from helpers.half import PRODUCT_DTYPES
from torch import Tensor

from fairseq_gmlm.models.training_attention import attention

B, HEADS, T, S, WIDTH = 3, 2, 5, 7, 16


def masks(kind: str) -> Optional[Tensor]:
    """None, a padding mask (True: attend), or a bias with -inf in it."""
    if kind == "none":
        return None
    real = torch.ones(B, 1, 1, S, dtype=torch.bool)
    real[1, ..., 4:] = False
    if kind == "padding":
        return real
    rng = torch.Generator().manual_seed(2)
    bias = torch.randn(1, HEADS, T, S, generator=rng)
    return bias.masked_fill(~real, -torch.inf)


@pytest.mark.parametrize("dtype", [*PRODUCT_DTYPES, torch.float32])
@pytest.mark.parametrize("kind", ["none", "padding", "bias"])
def test_values_and_gradients(dtype: torch.dtype, kind: str) -> None:
    rng = torch.Generator().manual_seed(1)
    shapes = [
        (B, HEADS, T, WIDTH),
        (B, HEADS, S, WIDTH),
        (B, HEADS, S, WIDTH),
        (B, HEADS, T, WIDTH),
    ]
    given = [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]
    mask = masks(kind)
    exact = [x.double().requires_grad_() for x in given[:3]]
    wide = mask if mask is None or mask.dtype == torch.bool else mask.double()
    expected = F.scaled_dot_product_attention(*exact, attn_mask=wide, scale=0.3)
    wanted = torch.autograd.grad(expected, exact, given[3].double())
    leaves = [x.clone().requires_grad_() for x in given[:3]]
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)
    found = attention(*leaves, mask, 0.0, 0.3)
    assert found.dtype == dtype
    tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5}[dtype]
    pairs = zip([found, *torch.autograd.grad(found, leaves, given[3])], [expected, *wanted])
    for mine, right in pairs:
        assert float((mine.double() - right).norm()) <= tolerance * float(right.norm())


def test_padding_gets_no_gradient() -> None:
    keys, values = (torch.randn(B, HEADS, S, WIDTH).bfloat16().requires_grad_() for _ in range(2))
    q = torch.randn(B, HEADS, T, WIDTH).bfloat16().requires_grad_()
    attention(q, keys, values, masks("padding"), 0.0, 0.25).float().square().sum().backward()
    for side in (keys, values):
        assert not side.grad[1, :, 4:].any()
        assert side.grad[1, :, :4].any()


def test_weights_are_dropped() -> None:
    torch.manual_seed(1)
    q = torch.zeros(1, 1, 4000, 4, dtype=torch.bfloat16, requires_grad=True)
    ones = torch.ones(1, 1, 1, 4, dtype=torch.bfloat16)
    out = attention(q, torch.zeros_like(ones), ones, None, 0.25, 1.0)
    assert out.unique().float().tolist() == pytest.approx([0.0, 4 / 3], rel=1e-2)
    assert float(out.eq(0).float().mean()) == pytest.approx(0.25, abs=0.03)


def test_the_fused_kernel_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its forward pass is fast in any precision; only gradients are not."""
    calls = []
    original = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    q, keys = (torch.randn(B, HEADS, n, WIDTH).bfloat16() for n in (T, S))
    attention(q, keys, keys, None, 0.0, 0.25)
    assert calls
