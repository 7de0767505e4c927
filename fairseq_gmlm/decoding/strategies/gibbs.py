"""Block Gibbs: each pass redraws a random block of the draft, given the rest (spec 1.6)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy, fill

_BLOCK_STREAM = 1 << 21  # one stream per pass, apart from those of samples


class Gibbs(Strategy):
    """Masks k random positions and fills them, pass after pass.

    With k = 1 and exact conditionals the chain's stationary law is the model's joint; with more the
    block is drawn from a product of conditionals, which biases it (spec 1.6). A masked start is
    filled by the first pass; to start from a draft see :meth:`from_draft`.

    Args:
        block: k, at least 1.
    """

    def __init__(self, block: int = 1) -> None:
        if block < 1:
            raise ValueError(f"--gibbs-block must be at least 1, not {block}")
        self.block = block

    @classmethod
    def of(cls, options: Any) -> "Gibbs":
        """Reads ``gibbs_block``."""
        return cls(options.gibbs_block)

    def from_draft(self, state: ChainState, mask: int) -> ChainState:
        """A chain about to begin from the draft in ``state.tokens``; ``mask`` is the symbol's id."""
        canvas = state.tokens.masked_fill(state.free, mask)
        return self._hide(replace(state, draft=state.tokens, initial=canvas), step=0)

    def _hide(self, state: ChainState, step: int) -> ChainState:
        """Mask the block that pass ``step`` redraws."""
        draw = state.rng.per_position(_BLOCK_STREAM + step, state.place)
        block = lowest(draw, state.free, state.free.sum(1).clamp(max=self.block))
        return replace(state, tokens=torch.where(block, state.initial, state.draft), pending=block)

    def update(
        self, state: ChainState, prediction: Prediction, step: int, passes: int
    ) -> ChainState:
        """Fill the block; unless this was the last pass, mask the next one."""
        state = fill(state, prediction, state.pending)
        if step + 1 >= passes:
            return replace(state, tokens=state.draft)
        return self._hide(state, step + 1)

    def finished(self, before: ChainState, after: ChainState) -> Tensor:
        """Never before the last pass: a block that came out as it was is no end."""
        return torch.zeros_like(after.rows, dtype=torch.bool)
