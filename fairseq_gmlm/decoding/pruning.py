"""Candidates that fall behind leave the chain early, so that the passes after that cost less."""

from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor

from fairseq_gmlm.decoding.state import ChainState


@dataclass(frozen=True)
class Pruning:
    """Which candidates of a sentence are run to their end.

    Attributes:
        keep: how many, at least 1.
        after: passes that all of them take part in, at least 1.
        score: of each row of a state, float (R,); higher is better.
    """

    keep: int
    after: int
    score: Callable[[ChainState], Tensor]

    def best(self, state: ChainState, candidates: int) -> Tensor:
        """The best rows of each sentence, int64 (B * keep,), in the order they stand in.

        Args:
            state: R = B * candidates rows.
            candidates: of a sentence.
        """
        ranked = self.score(state).view(-1, candidates).topk(self.keep, dim=1).indices
        first = torch.arange(ranked.size(0), device=ranked.device)[:, None] * candidates
        return (first + ranked.sort(1).values).flatten()

    def among(self, kept: Tensor, rows: Tensor, candidates: int) -> Tensor:
        """Where the kept rows stand in a part of the batch, int64 (B' * keep,).

        Args:
            kept: of the full batch, from :meth:`best`.
            rows: int64 (B' * candidates,), rows of the full batch in the part, by sentence.
            candidates: of a sentence.
        """
        first = rows.view(-1, candidates)[:, :1]
        place = torch.arange(first.size(0), device=rows.device)[:, None] * candidates
        return (kept.view(-1, self.keep)[first[:, 0] // candidates] - first + place).flatten()
