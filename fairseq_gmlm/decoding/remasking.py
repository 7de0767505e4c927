"""Which predictions are taken back, and what stands in their place (spec 3.6, 8.1)."""

from dataclasses import dataclass
from typing import Callable, Optional

import torch
from torch import Tensor

REMASKING = ("initial", "previous", "logits-sum")

# (draft, best log-probabilities, free, approval, step, passes) -> rejected, bool (R, T)
Rejecter = Callable[[Tensor, Tensor, Tensor, Optional[Tensor], int, int], Tensor]


def lowest(scores: Tensor, free: Tensor, count: Tensor) -> Tensor:
    """The ``count`` (R,) free positions of lowest score in each row, bool (R, T).

    Exactly that many (all, if a row has fewer), ties broken from left to right.
    """
    order = scores.masked_fill(~free, torch.inf).sort(dim=1, stable=True).indices
    chosen = torch.arange(order.size(1), device=order.device)[None] < count[:, None]
    return torch.zeros_like(free).scatter_(1, order, chosen) & free


def stutter(tokens: Tensor, free: Tensor) -> Tensor:
    """Free positions that repeat their left neighbour, bool (R, T) (spec 6).

    The neighbour must be free as well, so that nothing wraps around or meets BOS. Example: in
    ``the the the cat`` the second and the third ``the``.
    """
    same = torch.zeros_like(free)
    same[:, 1:] = tokens[:, 1:].eq(tokens[:, :-1]) & free[:, 1:] & free[:, :-1]
    return same


@dataclass(frozen=True)
class Remasking:
    """What a pass hands to the next one; the same in training and in decoding.

    Attributes:
        rejecter: which predictions are not approved.
        source: what stands there: the position's ``initial`` token, its ``previous`` one (what the
            pass had read), or the argmax of its logits summed over passes (``logits-sum``).
        remask_stutter: repeats of the left neighbour are rejected too.
    """

    rejecter: Rejecter
    source: str = "previous"
    remask_stutter: bool = False

    def __post_init__(self) -> None:
        if self.source not in REMASKING:
            raise ValueError(f"--remasking must be one of {REMASKING}, not {self.source!r}")

    @property
    def needs_logits(self) -> bool:
        """Whether summed logits have to be kept, which costs a vocabulary-sized buffer."""
        return self.source == "logits-sum"

    def rejected(
        self,
        draft: Tensor,
        best: Tensor,
        free: Tensor,
        approval: Optional[Tensor],
        step: int,
        passes: int,
    ) -> Tensor:
        """Positions of ``draft`` (R, T) that are taken back after pass ``step``, bool (R, T)."""
        again = self.rejecter(draft, best, free, approval, step, passes)
        return again | stutter(draft, free) if self.remask_stutter else again

    def replacement(self, initial: Tensor, shown: Tensor, summed: Optional[Tensor]) -> Tensor:
        """Tokens for rejected positions, int64 (R, T).

        Args:
            initial: what stood there before the first pass.
            shown: what the latest pass read.
            summed: argmax of the summed logits; read only if :attr:`needs_logits`.
        """
        if self.source == "initial":
            return initial
        return shown if self.source == "previous" else summed
