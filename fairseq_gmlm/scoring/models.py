"""Models of this plugin as sources of conditionals for the scorer."""

import math
from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.decoding.canvas import NoSource
from fairseq_gmlm.scoring.packing import Frame


def frame_of(vocabulary: Any) -> Frame:
    """Ids of a model's frame."""
    return Frame(vocabulary.bos, vocabulary.eos, vocabulary.pad, vocabulary.mask)


class ModelLogProbs:
    """Log-probabilities under one model or the average of several; symbols that are no text have none.

    Args:
        models: ``gmlm_lm`` or ``gmlm_transformer`` models with one dictionary.
        src_tokens, src_lengths: for translation models the sources, int64 (B, S) and (B,).
    """

    def __init__(
        self,
        models: Sequence[Any],
        src_tokens: Optional[Tensor] = None,
        src_lengths: Optional[Tensor] = None,
    ) -> None:
        self.models = list(models)
        first = self.models[0]
        self.device = first.banned.device
        # The text may hold unknown words; masks, padding and the frame it cannot.
        self.banned = first.banned[first.banned != first.vocabulary.unk]
        self.pad = first.vocabulary.pad
        self.memories: List[Any] = [NoSource()] * len(self.models)
        if src_tokens is not None:
            with torch.no_grad():
                self.memories = [
                    m.encode(src_tokens.to(self.device), src_lengths) for m in self.models
                ]

    @torch.no_grad()
    def __call__(self, tokens: Tensor, asked: Tensor, target: Tensor, text: Tensor) -> Tensor:
        """See :data:`~fairseq_gmlm.scoring.packing.LogProbs`."""
        tokens, asked = tokens.to(self.device), asked.to(self.device)
        index = asked.reshape(-1).nonzero().squeeze(1)
        gold = target.to(self.device).reshape(-1)[index]
        padded = bool(tokens.eq(self.pad).any())
        parts = []
        for model, memory in zip(self.models, self.memories):
            rows = memory.select(text.to(self.device))
            states = model.decode(tokens, rows, padded).states
            parts.append(self._gold(model, states.flatten(0, 1)[index], gold))
        found = torch.stack(parts).logsumexp(0) - math.log(len(parts))
        full = torch.zeros(asked.numel(), dtype=torch.double, device=self.device)
        return full.scatter_(0, index, found).view_as(asked)

    def _gold(self, model: Any, hidden: Tensor, gold: Tensor, size: int = 2048) -> Tensor:
        """log p of ``gold`` (N,), in slices that bound the memory."""
        found = []
        for start in range(0, max(len(gold), 1), size):
            logits = model.logits(hidden[start : start + size]).double()
            logits.index_fill_(-1, self.banned, -torch.inf)
            right = gold[start : start + size, None]
            found.append(logits.gather(-1, right).squeeze(-1) - logits.logsumexp(-1))
        return torch.cat(found)
