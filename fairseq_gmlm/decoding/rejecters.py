"""Rejecters: which predictions of a pass are not approved (spec 3.6).

A rejecter maps (draft, best log-probabilities, free positions, decoder states, step, passes) to
bool (R, T), True where the prediction is rejected. It may see the index of the pass; the decoder
never does.
"""

from typing import Callable, Dict, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest, stutter

Rejecter = Callable[[Tensor, Tensor, Tensor, Optional[Tensor], int, int], Tensor]


def passthrough(draft, best, free, states, step, passes) -> Tensor:
    """Keep everything (PaDIR's default)."""
    return torch.zeros_like(free)


def stuttering(draft, best, free, states, step, passes) -> Tensor:
    """Reject a token that equals its left neighbour."""
    return stutter(draft, free)


def linear_schedule(draft, best, free, states, step, passes) -> Tensor:
    """Reject the floor(n * (T - t - 1) / T) least sure of n, at least one while passes remain."""
    count = free.sum(1) * (passes - step - 1) // passes
    if step + 1 < passes:
        count = count.clamp(min=1)
    return lowest(best, free, count)


REJECTERS: Dict[str, Rejecter] = {
    "passthrough": passthrough,
    "stutter": stuttering,
    "linear-schedule": linear_schedule,
}
