"""Linear layers made for decoding: weights packed once in the order that the CPU's kernels read."""

import functools
import logging
import warnings
from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

MANY_ROWS = 128
"""From so many rows on oneDNN's int8 kernels are faster than fbgemm's (measured, 512 x 2048)."""


class PackedLinear(nn.Module):
    """A float32 or bfloat16 linear layer whose weight oneDNN has laid out for itself.

    A product of 25 rows is then 1.4 (float32) to 1.6 times (bfloat16) as fast as
    ``nn.functional.linear``, which reads the plain layout or reorders it in each call.

    Args:
        weight: (out, in).
        bias: (out,) or None.
        relu: apply it to the output, within the kernel.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], relu: bool = False) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
        self.bias = None if bias is None else bias.detach()
        self.after = "relu" if relu else "none"

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, self.after, [], "")


class Int8Linear(nn.Module):
    """A linear layer with int8 weights, one scale per output, and activations quantised per call.

    Uses torch's own quantised kernels (``quantized::linear_dynamic``) directly. Products are
    summed in int32; input and output are float32. There are two packings, one for few rows and one
    for many.

    Args:
        weight: (out, in).
        bias: (out,) or None.
        relu: apply it to the output, within the kernel.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], relu: bool = False) -> None:
        super().__init__()
        weight = weight.detach().float().contiguous()
        # A row of zeros has no scale of its own.
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127.0
        points = torch.zeros(weight.size(0), dtype=torch.long)
        with warnings.catch_warnings():
            # Newer torch announces the end of these tensors; the kernels have no other entrance yet.
            warnings.simplefilter("ignore")
            quantized = torch.quantize_per_channel(weight, scale.double(), points, 0, torch.qint8)
        bias = None if bias is None else bias.detach().float()
        # Without VNNI pairs of products are added in 16 bits, which seven-bit inputs cannot overflow.
        vnni = getattr(torch.cpu, "_is_vnni_supported", lambda: False)()
        self.reduce_range = not vnni
        self.few = self.many = _int8_packed(quantized, bias)
        if vnni and "onednn" in torch.backends.quantized.supported_engines:
            self.many = _int8_packed(quantized, bias, "onednn")
        kernel = (
            torch.ops.quantized.linear_relu_dynamic if relu else torch.ops.quantized.linear_dynamic
        )
        # The operator itself where it can be had: the wrapper looks for fake tensors in each call.
        self.product = getattr(kernel, "_op", kernel)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        many = x.numel() >= MANY_ROWS * x.size(-1)
        return self.product(x, self.many if many else self.few, self.reduce_range)


def _int8_packed(weight: Tensor, bias: Optional[Tensor], engine: Optional[str] = None) -> Any:
    """Weights in the order of an engine, by default the one that torch has chosen."""
    chosen = torch.backends.quantized.engine
    try:
        if engine is not None:
            torch.backends.quantized.engine = engine
        return torch.ops.quantized.linear_prepack(weight, bias)
    finally:
        torch.backends.quantized.engine = chosen


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch on this CPU packs weights of ``dtype``, found by trying a small product."""
    if not torch.backends.mkldnn.is_available():
        return False
    weight, x = torch.eye(16).to(dtype), torch.ones(2, 16, dtype=dtype)
    try:
        with torch.no_grad():
            found = PackedLinear(weight, None, relu=True)(x)
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        logger.info(f"weights stay as they are, since they cannot be packed: {error}")
        return False
    return torch.equal(found, x)


def fused(layers: Sequence[nn.Linear]) -> nn.Linear:
    """One layer whose output is theirs side by side; their input is the same.

    A single layer is returned as it is, so that nothing is copied.
    """
    if len(layers) == 1:
        return layers[0]
    weight = torch.cat([layer.weight.detach() for layer in layers])
    bias = None
    if layers[0].bias is not None:
        bias = torch.cat([layer.bias.detach() for layer in layers])
    return _plain(weight, bias)


def _plain(weight: Tensor, bias: Optional[Tensor]) -> nn.Linear:
    made = nn.Linear(1, 1, bias=False)
    made.in_features, made.out_features = weight.size(1), weight.size(0)
    made.weight = nn.Parameter(weight, requires_grad=False)
    made.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
    return made


class LinearWithRelu(nn.Module):
    """A linear layer and max(0, x) after it, where no kernel does both."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return self.layer(x).relu_()


class LinearFactory:
    """Makes the linear layers of a decoding copy.

    Args:
        dtype: ``float32``, ``bfloat16``, ``float16`` or ``int8``.
        pack: lay weights out for the CPU's kernels where that is possible; opaque to compilers.
    """

    def __init__(self, dtype: str, pack: bool = True) -> None:
        self.int8 = dtype == "int8"
        self.dtype = torch.float32 if self.int8 else getattr(torch, dtype)
        self.pack = pack

    def __call__(self, *layers: nn.Linear, relu: bool = False) -> nn.Module:
        """One layer for all of ``layers``, which read the same input; their outputs side by side."""
        layer = fused(layers)
        if self.int8:
            return Int8Linear(layer.weight, layer.bias, relu)
        weight = layer.weight.detach().to(self.dtype)
        bias = None if layer.bias is None else layer.bias.detach().to(self.dtype)
        if self.pack and weight.device.type == "cpu" and can_pack(self.dtype):
            return PackedLinear(weight, bias, relu)
        if weight.dtype != layer.weight.dtype:
            layer = _plain(weight, bias)
        return LinearWithRelu(layer) if relu else layer


def packed_layers(module: nn.Module) -> List[nn.Module]:
    """Layers inside ``module`` that this file has packed."""
    return [part for part in module.modules() if isinstance(part, (PackedLinear, Int8Linear))]
