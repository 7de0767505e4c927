"""Mask-predict: predict what is masked, mask the least sure again (Ghazvininejad et al., 2019)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.schedules import masked_count, masked_share
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill


class MaskPredict(Strategy):
    """The number masked falls from all to none over the passes."""

    def __init__(self, schedule: str = "linear") -> None:
        self.schedule = schedule

    @classmethod
    def of(cls, options: Any) -> "MaskPredict":
        """Reads ``mask_schedule``."""
        return cls(options.mask_schedule)

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Fill the masked positions; unless this was the last pass, mask the least sure."""
        state = fill(state, prediction, state.pending)
        if step + 1 >= passes:
            return state
        count = masked_count(state.free, masked_share(self.schedule, step + 1, passes))
        again = lowest(state.scores, state.free, count)
        return replace(state, tokens=torch.where(again, state.initial, state.draft), pending=again)

    def finished(self, before: ChainState, after: ChainState) -> Tensor:
        """Rows with nothing left to predict: the only early stop that changes no output.

        A draft that two passes agree on is no fixed point here, since each pass hides fewer
        tokens than the one before.
        """
        return ~after.pending.any(1)
