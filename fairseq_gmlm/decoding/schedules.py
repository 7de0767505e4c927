"""How much stays masked after each pass."""

import math

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


def masked_count(free: Tensor, share: float) -> Tensor:
    """floor(share * number of free positions), int64 (R,), from bool (R, T).

    In float32, as fairseq's CMLM computes it, so that both mask the same counts.
    """
    return (free.sum(1).float() * share).long()
