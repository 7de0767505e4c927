"""What a chain carries from pass to pass."""

from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG


class Prediction(NamedTuple):
    """What the conditional model says about a draft.

    Attributes:
        tokens: int64 (R, T), chosen tokens; meaningful where they were asked for.
        scores: float (R, T), log-probability of the chosen token.
        best: float (R, T), log-probability of the likeliest token (equals ``scores`` if greedy).
        approval: float (R, T) or None, the learned rejecter's log-odds that the likeliest token is
            right.
        logits: float (R, T, V) or None, for remasking that sums them.
    """

    tokens: Tensor
    scores: Tensor
    best: Tensor
    approval: Optional[Tensor] = None
    logits: Optional[Tensor] = None


@dataclass
class ChainState:
    """The rows of a running chain; row r is candidate r % K of sentence r // K.

    Attributes:
        tokens: int64 (R, T), what the model sees next.
        shown: int64 (R, T), what it saw in the latest pass.
        draft: int64 (R, T), the latest full prediction; no mask is left in it once every free
            position has been predicted.
        scores: float (R, T), log-probability of each token of the draft when it was predicted.
        free: bool (R, T), positions that the chain may write.
        initial: int64 (R, T), what ``tokens`` was at the start.
        pending: bool (R, T), positions that still have to be predicted.
        dropped: bool (R, T), positions that are left out of the output.
        place: int64 (R, T), number of each position among the free ones of its row.
        rows: int64 (R,), number of each row in the full batch.
        rng: :class:`CounterRNG` keyed by rows.
        total: optional float (R, T, V), summed logits, kept only where remasking needs them.
    """

    tokens: Tensor
    shown: Tensor
    draft: Tensor
    scores: Tensor
    free: Tensor
    initial: Tensor
    pending: Tensor
    dropped: Tensor
    place: Tensor
    rows: Tensor
    rng: CounterRNG
    total: Optional[Tensor] = None

    def select(self, index: Tensor) -> "ChainState":
        """The rows ``index``."""
        values = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor):
                values[item.name] = value.index_select(0, index)
        rng = CounterRNG.__new__(CounterRNG)
        rng.rows = self.rng.rows.index_select(0, index)
        return replace(self, rng=rng, **values)


def blank(lengths: Tensor, longest: int, pad: int, bos: int, eos: int, fill: int) -> Tensor:
    """Canvases BOS fill ... fill EOS pad ..., int64 (R, longest), from total lengths (R,)."""
    column = torch.arange(longest, device=lengths.device)[None]
    end = lengths[:, None] - 1
    tokens = torch.full((lengths.size(0), longest), fill, dtype=torch.long, device=lengths.device)
    tokens = tokens.masked_fill(column > end, pad).masked_fill(column == end, eos)
    return tokens.masked_fill(column == 0, bos)


def true_first(where: Tensor) -> Tensor:
    """Columns of each row, the True ones before the others and each in order, int64 (R, T)."""
    return where.to(torch.uint8).argsort(dim=1, descending=True, stable=True)


def initial_state(
    tokens: Tensor, free: Tensor, place: Tensor, rng: CounterRNG, known: Optional[Tensor] = None
) -> ChainState:
    """A chain about to begin.

    Args:
        tokens: int64 (R, T), the start.
        free: bool (R, T), positions that may change.
        place: int64 (R, T).
        rng: keyed by rows.
        known: bool (R, T), free positions that already hold a draft (default: none).
    """
    return ChainState(
        tokens=tokens,
        shown=tokens,
        draft=tokens,
        scores=torch.zeros(tokens.shape, device=tokens.device),
        free=free,
        initial=tokens,
        pending=free if known is None else free & ~known,
        dropped=torch.zeros_like(free),
        place=place,
        rows=torch.arange(tokens.size(0), device=tokens.device),
        rng=rng,
    )
