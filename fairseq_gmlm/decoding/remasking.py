"""Which predictions are taken back, and what stands in their place (spec 3.6, 8.1)."""

import torch
from torch import Tensor


def lowest(scores: Tensor, free: Tensor, count: Tensor) -> Tensor:
    """The ``count`` (R,) free positions of lowest score in each row, bool (R, T).

    Exactly that many, ties broken by torch's sort.
    """
    order = scores.masked_fill(~free, torch.inf).sort(1).indices
    chosen = torch.arange(order.size(1), device=order.device)[None] < count[:, None]
    return torch.zeros_like(free).scatter_(1, order, chosen) & free


def stutter(tokens: Tensor, free: Tensor) -> Tensor:
    """Free positions that repeat their left neighbour, bool (R, T) (spec 6).

    The neighbour must be free as well, so that nothing wraps around or meets BOS.
    """
    same = torch.zeros_like(free)
    same[:, 1:] = tokens[:, 1:].eq(tokens[:, :-1]) & free[:, 1:] & free[:, :-1]
    return same
