"""How much stays masked after each pass."""

import math
from typing import Union

import torch
from torch import Tensor

SCHEDULES = ("linear", "cosine")


def masked_share(name: str, done: int, passes: int) -> float:
    """Share of positions masked again after ``done`` of ``passes`` passes: 1 at 0, 0 at the end.

    ``linear`` is mask-predict's; ``cosine`` keeps more masked early and commits late.
    """
    progress = done / passes
    if name == "linear":
        return 1.0 - progress
    if name == "cosine":
        return max(0.0, math.cos(0.5 * math.pi * progress))
    raise ValueError(f"--mask-schedule must be one of {SCHEDULES}, not {name!r}")


def masked_count(free: Tensor, share: Union[float, Tensor]) -> Tensor:
    """floor(share * number of free positions), int64 (R,), from bool (R, T).

    In float32, as fairseq's CMLM computes it, so that both mask the same counts.
    """
    return (free.sum(1).float() * share).long()


def row_passes(free: Tensor, passes: int, per_token: float) -> Tensor:
    """Passes that each row gets, int64 (R,): ceil(per_token * free positions), 1 to ``passes``.

    Args:
        free: bool (R, T).
        passes: the most.
        per_token: passes for each position; 0: all rows get ``passes``.
    """
    count = free.sum(1)
    if per_token == 0:
        return torch.full_like(count, passes)
    # In double precision, so that 0.2 * 15 is 3 and not a little more.
    wanted = torch.ceil(count.double() * per_token - 1e-9).long()
    return wanted.clamp(min=1, max=passes)
