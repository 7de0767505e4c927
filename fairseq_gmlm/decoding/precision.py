"""Decoding in fewer bits: copies of a model whose matrices are bfloat16, float16 or int8."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

DTYPES = ("float32", "bfloat16", "float16", "int8")


class Int8Linear(nn.Module):
    """A linear layer with int8 weights, one scale per output, and activations quantised per call.

    Uses torch's own quantised kernels (``quantized::linear_dynamic``) directly. Products are
    summed in int32; input and output are float32.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach().float().contiguous()
        # A row of zeros has no scale of its own.
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127.0
        points = torch.zeros(weight.size(0), dtype=torch.long)
        quantized = torch.quantize_per_channel(weight, scale.double(), points, 0, torch.qint8)
        bias = None if layer.bias is None else layer.bias.detach().float()
        self.packed = torch.ops.quantized.linear_prepack(quantized, bias)
        # Without VNNI pairs of products are added in 16 bits, which seven-bit inputs cannot overflow.
        vnni = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
        self.reduce_range = not vnni()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return torch.ops.quantized.linear_dynamic(x, self.packed, self.reduce_range)


def _quantize(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            _quantize(child)


def check_dtype(dtype: str, device: torch.device) -> None:
    """Refuse what the hardware cannot do, or not faster than float32.

    Raises:
        ValueError: with the reason and what to use instead.
    """
    if dtype not in DTYPES:
        raise ValueError(f"--decode-dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    if dtype == "float16" and device.type == "cpu":
        raise ValueError(
            "--decode-dtype float16: CPUs have no fast half-precision products; use bfloat16 or int8"
        )
    if dtype == "int8" and device.type != "cpu":
        raise ValueError(
            f"--decode-dtype int8: its kernels are for CPUs, the model is on {device.type}; use "
            "float16 or bfloat16"
        )
    if dtype == "int8" and torch.backends.quantized.engine in (None, "none"):
        raise ValueError(
            "--decode-dtype int8: this torch has no quantised kernels for this CPU; use float32"
        )


@torch.no_grad()
def for_decoding(model: Any, dtype: str) -> Any:
    """A copy of a finished model that computes in ``dtype``; for float32 the model itself.

    The length head stays in float32: it runs once per sentence, and a wrong length costs more than
    its few products.

    Args:
        model: a ``gmlm_transformer``, prepared for inference.
        dtype: one of :data:`DTYPES`.

    Raises:
        ValueError: the hardware cannot, or the model is still being trained.
    """
    if dtype == "float32":
        return model
    check_dtype(dtype, next(model.parameters()).device)
    if not getattr(model, "_is_generation_fast", False):
        raise ValueError(
            f"--decode-dtype {dtype} copies the weights once, so it is for finished models: leave "
            "it at float32 in training, or call model.prepare_for_inference_(cfg) first"
        )
    changed = copy.deepcopy(model)
    if dtype == "int8":
        for stack in (changed.encoder, changed.decoder):
            _quantize(stack)
        return changed
    changed.to(torch.bfloat16 if dtype == "bfloat16" else torch.float16)
    changed.length_predictor.float()
    return changed
