"""Refinement: re-predict every position of the draft, take back what is rejected (PaDIR)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.rejecters import build_rejecter, learned
from fairseq_gmlm.decoding.remasking import Remasking, stutter
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill


class Refine(Strategy):
    """PaDIR's loop (spec 3.4).

    Args:
        remasking: what is taken back, and what stands there in the next pass. With stutter
            remasking repeats are taken back after the last pass too; those that then show their
            start again are left out of the output.
        start: ``random``, ``mask`` or ``mask-range``.
    """

    whole_drafts = True

    def __init__(self, remasking: Remasking, start: str = "random") -> None:
        self.remasking, self.start = remasking, start
        self.needs_logits = remasking.needs_logits
        self.needs_approval = remasking.rejecter is learned

    @classmethod
    def of(cls, options: Any) -> "Refine":
        """Reads ``rejecter`` (and its ``bottom_*``), ``remasking``, ``remask_stutter``, ``decode_start``."""
        remasking = Remasking(build_rejecter(options), options.remasking, options.remask_stutter)
        return cls(remasking, options.decode_start)

    def where(self, state: ChainState) -> Tensor:
        """Every free position."""
        return state.free

    def _replacement(self, state: ChainState) -> Tensor:
        summed = state.total.argmax(-1) if self.needs_logits else None
        return self.remasking.replacement(state.initial, state.shown, summed)

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Write the whole prediction; replace what is rejected in what the model sees next."""
        after = fill(state, prediction, state.free)
        if self.needs_logits:
            before = state.total
            total = prediction.logits if before is None else before + prediction.logits
            after = replace(after, total=total)
        again = self.remasking.rejected(
            after.draft, prediction.best, state.free, prediction.approval, step, passes
        )
        return replace(after, tokens=torch.where(again, self._replacement(after), after.draft))

    def finalize(self, state: ChainState) -> ChainState:
        """Remask stutter once more; what then shows its start again is left out of the output.

        Only remasked positions can be left out: a random start may be right by chance (8.5.5).
        """
        if not self.remasking.remask_stutter:
            return state
        again = stutter(state.draft, state.free)
        tokens = torch.where(again, self._replacement(state), state.draft)
        return replace(state, draft=tokens, dropped=again & tokens.eq(state.initial))
