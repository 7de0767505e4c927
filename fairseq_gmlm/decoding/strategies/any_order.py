"""Any-order generation: one position a pass, or n, in an order (u-PMLM, spec 7.3)."""

from dataclasses import replace
from typing import Any, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.orders import ORDERS, Given, order_ranks, read_orders
from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill


def quota(pending: Tensor, per_pass: int, left: int) -> Tensor:
    """How many positions to reveal now, int64 (R,).

    ``per_pass``, or more where ``left`` passes (this one counted) would not suffice otherwise, so
    that no chain ends with a mask.
    """
    waiting = pending.sum(1)
    needed = (waiting + left - 1) // left
    return needed.clamp(min=per_pass).minimum(waiting)


class Revealing(Strategy):
    """Base of strategies that keep what they have revealed, until no mask is left.

    Args:
        per_pass: positions revealed in each pass, at least 1.
    """

    keeps = True

    def __init__(self, per_pass: int = 1) -> None:
        if per_pass < 1:
            raise ValueError(f"--positions-per-pass must be at least 1, not {per_pass}")
        self.per_pass = per_pass

    def chosen(self, state: ChainState, prediction: Prediction, count: Tensor) -> Tensor:
        """Pending positions to reveal, bool (R, T), given how many are due (R,)."""
        raise NotImplementedError

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Reveal what is chosen; the rest stays masked."""
        count = quota(state.pending, self.per_pass, passes - step)
        now = self.chosen(state, prediction, count) & state.pending
        after = fill(state, prediction, now)
        return replace(after, tokens=torch.where(now, after.draft, state.tokens))

    def finished(self, before: ChainState, after: ChainState) -> Tensor:
        """Rows without a mask."""
        return ~after.pending.any(1)


class AnyOrder(Revealing):
    """Reveals positions in an order; exact, one at a time, for exact conditionals.

    Args:
        order: one of :data:`~fairseq_gmlm.decoding.orders.ORDERS`. ``surest-first`` takes, in each
            pass, the position whose likeliest token is surest, then chooses its token.
        per_pass: positions a pass; more than one reveals them as if independent (spec 7.5).
        given: orders for ``file``.
    """

    def __init__(self, order: str = "random", per_pass: int = 1, given: Optional[Given] = None):
        super().__init__(per_pass)
        if order not in ORDERS:
            raise ValueError(f"--decode-order must be one of {ORDERS}, not {order!r}")
        self.order, self.given = order, given or {}

    @classmethod
    def of(cls, options: Any) -> "AnyOrder":
        """Reads ``decode_order``, ``decode_order_file`` and ``positions_per_pass``."""
        path = options.decode_order_file
        return cls(
            options.decode_order, options.positions_per_pass, read_orders(path) if path else None
        )

    def chosen(self, state: ChainState, prediction: Prediction, count: Tensor) -> Tensor:
        """The next in the order."""
        if self.order == "surest-first":
            return lowest(-prediction.best, state.pending, count)
        ranks = order_ranks(self.order, state.free, state.place, state.rng, self.given)
        return lowest(ranks.float(), state.pending, count)
