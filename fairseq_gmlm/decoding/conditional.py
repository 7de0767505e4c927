"""The model as the chain sees it: p(token | draft, source) for every candidate of every sentence."""

import math
from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.models.memory import Memory

_SAMPLING_STREAM = 1 << 20  # one stream per pass, apart from those of starts


class ModelConditional:
    """One model, or an ensemble whose probabilities are averaged.

    Args:
        models: ``gmlm_transformer`` models with one dictionary.
        memories: their encodings of the batch.
        choice: greedy or sampling.
        banned: ids that can never be chosen.
        padded: rows differ in length.
        keep_states: predictions carry the (first) model's decoder states.
    """

    def __init__(
        self,
        models: Sequence[Any],
        memories: List[Memory],
        choice: Choice,
        banned: Tensor,
        padded: bool,
        keep_states: bool = False,
    ) -> None:
        self.models, self.memories, self.choice = models, memories, choice
        self.banned, self.padded, self.keep_states = banned, padded, keep_states

    def select(self, sentences: Tensor) -> "ModelConditional":
        """The same for a part of the sentences."""
        memories = [memory.select(sentences) for memory in self.memories]
        return ModelConditional(
            self.models, memories, self.choice, self.banned, self.padded, self.keep_states
        )

    def _logits(self, hidden: List[Tensor]) -> Tensor:
        """float32 (N, V) from each model's (N, d); forbidden ids at -inf."""
        parts = [model.logits(h).float() for model, h in zip(self.models, hidden)]
        if len(parts) > 1:
            log_probs = torch.stack([part.log_softmax(-1) for part in parts])
            parts = [log_probs.logsumexp(0) - math.log(len(parts))]
        if self.banned.numel():
            parts[0].index_fill_(-1, self.banned, -torch.inf)
        return parts[0]

    def __call__(self, state: ChainState, where: Tensor, step: int) -> Prediction:
        """One decoder pass; logits only at the positions of ``where``."""
        states = [
            model.decode(state.tokens, memory, self.padded).states
            for model, memory in zip(self.models, self.memories)
        ]
        index = positions_read(where)
        if index is None:
            hidden = [s.flatten(0, 1) for s in states]
        else:
            hidden = [s.gather(1, index[..., None].expand(-1, -1, s.size(-1))) for s in states]
            hidden = [h.flatten(0, 1) for h in hidden]
        uniform = state.scores.new_empty(0)
        if not self.choice.greedy:
            uniform = state.rng.per_position(_SAMPLING_STREAM + step, state.place)
            uniform = (uniform if index is None else uniform.gather(1, index)).flatten()
        values = self.choice.pick(self._logits(hidden), uniform)
        tokens, scores, best = (spread(v, index, where) for v in values)
        return Prediction(tokens, scores, best, states[0] if self.keep_states else None)


def positions_read(where: Tensor) -> Optional[Tensor]:
    """Columns to read, int64 (R, n), n the most that any row wants; None: all.

    Rows that want fewer read some of the other columns too, which nobody looks at. On a GPU n is
    not asked for, as the answer would cost a synchronisation in each pass.
    """
    if where.is_cuda:
        return None
    most = int(where.sum(1).max()) if where.numel() else 0
    if most == where.size(1):
        return None
    return where.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : max(most, 1)]


def spread(values: Tensor, index: Optional[Tensor], like: Tensor) -> Tensor:
    """Values (R * n,) back to their columns, (R, T); zero where nothing was read."""
    if index is None:
        return values.view_as(like)
    full = torch.zeros(like.shape, dtype=values.dtype, device=values.device)
    return full.scatter_(1, index, values.view(index.shape))
