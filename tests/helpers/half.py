"""Which 16-bit types a model can be run in on this machine's CPU."""

import pytest
import torch
import torch.nn.functional as F


def float16_on_cpu() -> bool:
    """Whether torch has LayerNorm and products in float16 for CPUs (2.2 has not)."""
    x = torch.ones(2, 2, dtype=torch.float16)
    try:
        F.layer_norm(F.linear(x, x), (2,))
    except RuntimeError:
        return False
    return True


needs_float16 = pytest.mark.skipif(
    not float16_on_cpu(), reason="this torch has no float16 on CPUs; a newer one has"
)
MODEL_DTYPES = [torch.bfloat16, pytest.param(torch.float16, marks=needs_float16)]
