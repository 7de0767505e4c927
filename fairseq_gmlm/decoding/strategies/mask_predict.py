"""Mask-predict: predict what is masked, mask the least sure again (Ghazvininejad et al., 2019)."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.schedules import masked_count, masked_share, row_passes
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill


class MaskPredict(Strategy):
    """The number masked falls from all to none over the passes.

    Args:
        schedule: how it falls.
        per_token: passes that a row gets for each of its positions; 0: as many as there are.
        keep_above: what was predicted with this probability is not masked again; 0: all may be.
            A row ends when nothing is masked again, so that sure sentences take few passes.
    """

    whole_drafts = True

    def __init__(
        self, schedule: str = "linear", per_token: float = 0.0, keep_above: float = 0.0
    ) -> None:
        if per_token < 0:
            raise ValueError(f"--passes-per-token must be at least 0, not {per_token}")
        if not 0.0 <= keep_above <= 1.0:
            raise ValueError(f"--keep-above must be a probability, not {keep_above}")
        self.schedule, self.per_token, self.keep_above = schedule, per_token, keep_above

    @classmethod
    def of(cls, options: Any) -> "MaskPredict":
        """Reads ``mask_schedule``, ``passes_per_token`` and ``keep_above``."""
        return cls(options.mask_schedule, options.passes_per_token, options.keep_above)

    def _count(self, free: Tensor, done: int, passes: int) -> Tensor:
        """Positions masked again in each row after ``done`` passes, int64 (R,)."""
        if self.per_token == 0:
            return masked_count(free, masked_share(self.schedule, done, passes))
        shares = [masked_share(self.schedule, min(done, n), n) for n in range(1, passes + 1)]
        own = row_passes(free, passes, self.per_token)
        return masked_count(free, torch.tensor(shares, device=free.device)[own - 1])

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Fill the masked positions; unless this was the last pass, mask the least sure."""
        state = fill(state, prediction, state.pending)
        if step + 1 >= passes:
            return state
        again = lowest(state.scores, state.free, self._count(state.free, step + 1, passes))
        if self.keep_above:
            again &= state.scores < math.log(self.keep_above)
        return replace(state, tokens=torch.where(again, state.initial, state.draft), pending=again)

    def finished(self, before: ChainState, after: ChainState) -> Tensor:
        """Rows with nothing left to predict: the only early stop that changes no output.

        A draft that two passes agree on is no fixed point here, since each pass hides fewer
        tokens than the one before.
        """
        return ~after.pending.any(1)
