"""Refinement: re-predict every position of the draft, take back what is rejected (PaDIR)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.rejecters import REJECTERS, Rejecter
from fairseq_gmlm.decoding.remasking import stutter
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill

REMASKING = ("initial", "previous")


class Refine(Strategy):
    """PaDIR's loop (spec 3.4).

    Args:
        rejecter: what is not approved.
        start: ``random``, ``mask`` or ``mask-range``.
        remasking: what stands at a rejected position: its ``initial`` or ``previous`` token.
        remask_stutter: also take back repeats of the left neighbour, after the last pass too;
            with ``initial`` remasking the repeat is then left out of the output.
    """

    def __init__(
        self,
        rejecter: Rejecter,
        start: str = "random",
        remasking: str = "previous",
        remask_stutter: bool = False,
    ) -> None:
        if remasking not in REMASKING:
            raise ValueError(f"--remasking must be one of {REMASKING}, not {remasking!r}")
        self.rejecter, self.start = rejecter, start
        self.remasking, self.remask_stutter = remasking, remask_stutter

    @classmethod
    def of(cls, options: Any) -> "Refine":
        """Reads ``rejecter``, ``decode_start``, ``remasking`` and ``remask_stutter``."""
        return cls(
            REJECTERS[options.rejecter],
            options.decode_start,
            options.remasking,
            options.remask_stutter,
        )

    def where(self, state: ChainState) -> Tensor:
        """Every free position."""
        return state.free

    def replacement(self, state: ChainState) -> Tensor:
        """Tokens (R, T) for rejected positions; ``state.shown`` is what the last pass read."""
        return state.initial if self.remasking == "initial" else state.shown

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Write the whole prediction; replace what is rejected in what the model sees next."""
        after = fill(state, prediction, state.free)
        again = self.rejecter(
            after.draft, prediction.best, state.free, prediction.states, step, passes
        )
        if self.remask_stutter:
            again = again | stutter(after.draft, state.free)
        return replace(after, tokens=torch.where(again, self.replacement(after), after.draft))

    def finalize(self, state: ChainState) -> ChainState:
        """Remask stutter once more; what then shows its start again is left out of the output.

        Only remasked positions can be left out: a random start may be right by chance (8.5.5).
        """
        if not self.remask_stutter:
            return state
        again = stutter(state.draft, state.free)
        tokens = torch.where(again, self.replacement(state), state.draft)
        return replace(state, draft=tokens, dropped=again & tokens.eq(state.initial))
