"""The copy of a finished model that decodes: fused, packed, and in fewer bits where asked for."""

import copy
import weakref
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from fairseq_gmlm.decoding.compilation import CompiledModel, check_compilation
from fairseq_gmlm.decoding.fused import (
    FusedDecoderLayer,
    FusedEncoderLayer,
    FusedMemoryProjection,
    shallow,
)
from fairseq_gmlm.decoding.kernels import LinearFactory
from fairseq_gmlm.hardware import warn_of_slow_bfloat16

DTYPES = ("float32", "bfloat16", "float16", "int8")

# Copies live as long as their models.
_COPIES: "weakref.WeakKeyDictionary[Any, Dict[Tuple, Any]]" = weakref.WeakKeyDictionary()


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
    if dtype == "bfloat16":
        warn_of_slow_bfloat16("--decode-dtype", device.type, "int8 or float32")
    # torch has announced the end of these kernels' tensors; until then they are the fastest.
    no_kernels = torch.backends.quantized.engine in (None, "none")
    if dtype == "int8" and (no_kernels or not hasattr(torch, "quantize_per_channel")):
        raise ValueError(
            "--decode-dtype int8: this torch has no quantised kernels for this CPU; use bfloat16 or "
            "float32"
        )


def is_finished(model: Any) -> bool:
    """Whether fairseq has prepared the model for inference, so that its weights stay as they are."""
    return bool(getattr(model, "_is_generation_fast", False))


@torch.no_grad()
def for_decoding(model: Any, dtype: str, compiled: bool = False, cuda_graphs: bool = False) -> Any:
    """What decodes in place of ``model``; it is left alone, and kept as long as it does not change.

    In float32 a model that is still being trained decodes itself.

    Args:
        model: a ``gmlm_transformer``, prepared for inference.
        dtype: one of :data:`DTYPES`.
        compiled, cuda_graphs: see :class:`~fairseq_gmlm.decoding.compilation.CompiledModel`.

    Raises:
        ValueError: the hardware cannot, or the model is still being trained.
        UserError: what should be compiled cannot be.
    """
    compiled = compiled or cuda_graphs
    if not is_finished(model):
        if dtype == "float32" and not compiled:
            return model
        option = "--decode-compile" if compiled else f"--decode-dtype {dtype}"
        raise ValueError(
            f"{option} copies the weights once, so it is for finished models: leave "
            "it out in training, or call model.prepare_for_inference_(cfg) first"
        )
    known = _COPIES.setdefault(model, {})
    key = dtype, compiled, cuda_graphs
    kept = known.get(key)
    if kept is not None and kept.state == _state(kept.weights):
        return kept.copy
    weights = list(model.parameters())
    check_dtype(dtype, weights[0].device)
    # float32 means: as it is, which --fp16 and --bf16 change.
    own = str(weights[0].dtype).rpartition(".")[2] if dtype == "float32" else dtype
    if compiled:
        check_compilation(dtype, weights[0].device, cuda_graphs)
    found = decoding_copy(model, LinearFactory(own, pack=not compiled))
    if compiled:
        found = CompiledModel(found, cuda_graphs)
    known[key] = _Kept(weights, _state(weights), found)
    return found


class _Kept(NamedTuple):
    """A copy, the weights it was made from, and what tells whether they have changed."""

    weights: List[Tensor]
    state: List[Tuple[int, int]]
    copy: Any


def _state(weights: List[Tensor]) -> List[Tuple[int, int]]:
    return [(weight.data_ptr(), weight._version) for weight in weights]


def decoding_copy(model: Any, linear: LinearFactory) -> Any:
    """A model with fused layers made by ``linear``.

    What is no linear layer is shared with the original where the number format stays. The length
    head stays in float32: it runs once per sentence, and a wrong length costs more than its few
    products.
    """
    made = shallow(model)
    made.training = False
    for side, layer in (("encoder", FusedEncoderLayer), ("decoder", FusedDecoderLayer)):
        stack = getattr(model, side)
        part = shallow(stack)
        part.training = False
        part.layers = nn.ModuleList([layer(old, linear) for old in stack.layers])
        setattr(made, side, part)
    made.decoder.output_projection = linear(model.decoder.output_projection)
    made.decodes_columns = True
    made.decoder.memory_projection = FusedMemoryProjection(model.decoder.layers, linear)
    for part in (made, made.encoder, made.decoder, *made.encoder.layers, *made.decoder.layers):
        _convert_rest(part, linear.dtype)
    return made


_OWN = ("encoder", "decoder", "layers", "output_projection", "memory_projection")
_LINEARS = ("self_attn", "fc1", "fc2", "gate", "q_proj", "out_proj", "positional_attn")


def _convert_rest(module: nn.Module, dtype: torch.dtype) -> None:
    """Children and parameters of ``module`` that are no linear layers of the copy, in ``dtype``."""
    for name, child in list(module.named_children()):
        if name not in (*_OWN, *_LINEARS, "length_predictor"):
            setattr(module, name, _converted(child, dtype))
    for name, value in list(module._parameters.items()):
        if value is not None and value.is_floating_point() and value.dtype != dtype:
            module._parameters[name] = nn.Parameter(value.detach().to(dtype), requires_grad=False)


def _converted(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The module itself, or a copy in ``dtype`` where it has another."""
    values = [*module.parameters(), *module.buffers()]
    if all(v.dtype == dtype for v in values if v.is_floating_point()):
        return module
    return copy.deepcopy(module).to(dtype)
