"""What a strategy is: pure functions on the state of a chain."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.state import ChainState, Prediction


class Strategy:
    """A way to run the chain: where to predict, and what the model sees next.

    Attributes:
        start: what stands at the free positions at first: ``mask``, ``random`` or ``mask-range``.
        needs_approval, needs_logits: whether predictions must carry the learned rejecter's verdict
            or their logits.
        keeps: what is predicted is never taken back, so that :meth:`finished` is final even for
            rows that sample.
        whole_drafts: every pass leaves a prediction at each free position, so that candidates can
            be compared on their way.
    """

    start = "mask"
    needs_approval = False
    needs_logits = False
    keeps = False
    whole_drafts = False

    @classmethod
    def of(cls, options: Any) -> "Strategy":
        """From :class:`~fairseq_gmlm.decoding.options.DecodingOptions`."""
        raise NotImplementedError

    def where(self, state: ChainState) -> Tensor:
        """Positions whose prediction is read in the next pass, bool (R, T)."""
        return state.pending

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """The state after pass ``step`` (from 0) of at most ``passes``.

        After the last pass every free position of the draft must have been predicted.
        """
        raise NotImplementedError

    def finished(self, before: ChainState, after: ChainState) -> Tensor:
        """Rows that further passes would not change, bool (R,).

        Drafts are compared, not the remasked inputs, so that no mask is ever taken for a result.
        """
        return before.draft.eq(after.draft).all(1)

    def finalize(self, state: ChainState) -> ChainState:
        """Last touch on the drafts of all rows, after the chain has ended."""
        return state


def fill(state: ChainState, prediction: Prediction, where: Tensor) -> ChainState:
    """Write the prediction into draft and scores at ``where``; nothing stays pending there."""
    return replace(
        state,
        draft=torch.where(where, prediction.tokens, state.draft),
        scores=torch.where(where, prediction.scores, state.scores),
        pending=state.pending & ~where,
    )
