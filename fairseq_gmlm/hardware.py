"""What the machine computes fast."""

import functools
import logging

import torch

logger = logging.getLogger(__name__)


@functools.cache
def fast_bfloat16(device_type: str) -> bool:
    """Whether matrix products in bfloat16 are no slower than in float32.

    On a CPU they are where oneDNN has kernels for them (AVX-512, Arm's BF16). Elsewhere torch computes
    them without any: 1 instead of 60 GFLOPS on an AMD EPYC with AVX2 and torch 2.13.

    Args:
        device_type: such as ``cpu`` or ``cuda``.
    """
    if device_type == "cuda":
        # torch's own answer counts emulation in.
        return torch.version.hip is not None or torch.cuda.get_device_capability()[0] >= 8
    try:
        return device_type == "cpu" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # a torch without oneDNN
        return False


@functools.cache
def warn_of_slow_bfloat16(option: str, device_type: str, instead: str) -> None:
    """Say, once, if bfloat16 was asked for on a CPU that has no kernels for it.

    Args:
        option: that asked for it.
        device_type: where it would be computed.
        instead: what to give the option.
    """
    if device_type == "cpu" and not fast_bfloat16(device_type):
        logger.warning(
            f"{option} bfloat16: this CPU has no fast products in bfloat16 (no AVX-512), so it is "
            f"many times slower than float32; give it {instead}"
        )
