"""Rejecters: which predictions of a pass are not approved (spec 3.6).

A rejecter maps (draft, best, free, approval, step, passes) to bool (R, T), True where the
prediction is rejected: ``draft`` int64 (R, T); ``best`` float (R, T), log-probability of the
likeliest token; ``free`` bool (R, T); ``approval`` float (R, T), the learned head's log-odds that
the prediction is right, or None; ``step`` from 0. It may see the index of the pass; the decoder
never does.
"""

from typing import Any, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import Rejecter, lowest, stutter

REJECTERS = ("passthrough", "stutter", "linear-schedule", "constant", "learned")


def passthrough(draft, best, free, approval, step, passes) -> Tensor:
    """Keep everything (PaDIR's default)."""
    return torch.zeros_like(free)


def stuttering(draft, best, free, approval, step, passes) -> Tensor:
    """Reject a token that equals its left neighbour."""
    return stutter(draft, free)


def linear_schedule(draft, best, free, approval, step, passes) -> Tensor:
    """Reject the floor(n * (T - t - 1) / T) least sure of n, at least one while passes remain."""
    count = free.sum(1) * (passes - step - 1) // passes
    if step + 1 < passes:
        count = count.clamp(min=1)
    return lowest(best, free, count)


def learned(draft, best, free, approval, step, passes) -> Tensor:
    """Reject what the model's rejecter head holds to be wrong (log-odds not above 0)."""
    if approval is None:
        raise ValueError(
            "--rejecter learned needs a model with --learned-rejecter; choose another rejecter"
        )
    return free & (approval <= 0)


def constant(count: Optional[int] = None, percent: Optional[float] = None) -> Rejecter:
    """Reject the same number of least sure tokens in every pass.

    Args:
        count: that many, or all where a sentence has fewer.
        percent: floor(n * percent / 100) of n tokens, at least one.

    Raises:
        ValueError: not exactly one is given, or it is out of range.
    """
    if (count is None) == (percent is None):
        raise ValueError(
            "--rejecter constant needs exactly one of --bottom-k and --bottom-percent, not "
            f"{count} and {percent}"
        )
    if count is not None and count < 1:
        raise ValueError(f"--bottom-k must be at least 1, not {count}")
    if percent is not None and not 0.0 < percent <= 100.0:
        raise ValueError(f"--bottom-percent must be above 0 and at most 100, not {percent}")

    def reject(draft, best, free, approval, step, passes) -> Tensor:
        total = free.sum(1)
        if count is not None:
            return lowest(best, free, torch.full_like(total, count))
        # float64: 10 * 30 / 100 must be 3, not a hair below it.
        share = (total.double() * percent / 100 + 1e-9).floor().long()
        return lowest(best, free, share.clamp(min=1))

    return reject


_PLAIN = {
    "passthrough": passthrough,
    "stutter": stuttering,
    "linear-schedule": linear_schedule,
    "learned": learned,
}


def build_rejecter(options: Any) -> Rejecter:
    """The rejecter that ``options.rejecter``, ``bottom_k`` and ``bottom_percent`` name.

    Raises:
        ValueError: unknown name, or a bottom option that the rejecter does not read.
    """
    name = str(options.rejecter)
    if name == "constant":
        return constant(options.bottom_k, options.bottom_percent)
    if options.bottom_k is not None or options.bottom_percent is not None:
        raise ValueError(
            f"--bottom-k and --bottom-percent belong to --rejecter constant, not to {name}"
        )
    if name not in _PLAIN:
        raise ValueError(f"--rejecter must be one of {REJECTERS}, not {name!r}")
    return _PLAIN[name]
