"""Which 16-bit types this torch has on a CPU, for a model and for products alone."""

from typing import Callable, List

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def _lacks_float16(compute: Callable[[Tensor], Tensor]) -> bool:
    try:
        compute(torch.ones(1, 2, 2, dtype=torch.float16))
    except RuntimeError:
        return True
    return False


def _needing(compute: Callable[[Tensor], Tensor]) -> pytest.MarkDecorator:
    reason = "this torch has no float16 on CPUs; a newer one has"
    return pytest.mark.skipif(_lacks_float16(compute), reason=reason)


def _both(mark: pytest.MarkDecorator) -> List:
    return [torch.bfloat16, pytest.param(torch.float16, marks=mark)]


needs_float16 = _needing(lambda x: F.layer_norm(F.linear(x, x[0]), (2,)))  # torch 2.2 lacks it
MODEL_DTYPES = _both(needs_float16)
PRODUCT_DTYPES = _both(_needing(lambda x: torch.bmm(x, F.linear(x, x[0]))))  # torch 2.1 lacks it
