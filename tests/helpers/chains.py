"""Hand-written conditionals and starts for chains without a model."""

from dataclasses import dataclass, field, replace
from typing import Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.state import ChainState, Prediction, blank, initial_state

BOS, PAD, EOS, MASK = 0, 1, 2, 9
Rule = Callable[[ChainState, int], Tuple[Tensor, Tensor]]


@dataclass
class Scripted:
    """A conditional that follows a rule and keeps count.

    Attributes:
        rule: (state, step) -> tokens int64 (R, T) and log-probabilities (R, T).
        calls: rows (numbers in the full batch) of each call.
        shown: what each call saw.
    """

    rule: Rule
    calls: List[List[int]] = field(default_factory=list)
    shown: List[Tensor] = field(default_factory=list)

    def __call__(self, state: ChainState, where: Tensor, step: int) -> Prediction:
        self.calls.append(state.rows.tolist())
        self.shown.append(state.tokens.clone())
        tokens, scores = self.rule(state, step)
        # What nobody asked for is garbage, so that reading it shows.
        return Prediction(
            tokens.masked_fill(~where, -7),
            scores.masked_fill(~where, 99.0),
            scores.masked_fill(~where, 99.0),
        )

    def select(self, sentences: Tensor) -> "Scripted":
        """The rule reads the state, so nothing has to be cut."""
        return replace(self)


def start(lengths: Sequence[int], fill: int = MASK, width: Optional[int] = None) -> ChainState:
    """Rows with so many free positions, all showing ``fill``."""
    total = torch.tensor(lengths) + 2
    tokens = blank(total, width or int(total.max()), PAD, BOS, EOS, fill)
    column = torch.arange(tokens.size(1))
    free = (column > 0) & (column < total[:, None] - 1)
    place = (column - 1).clamp(min=0).expand_as(tokens)
    return initial_state(tokens, free, place, CounterRNG(0, torch.arange(len(lengths))))
