"""The model as the chain sees it: p(token | draft, source) for every candidate of every sentence."""

import copy
import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.decoding.attention import AttentionRecorder, decode_recorded
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.distinct import without_stutter
from fairseq_gmlm.decoding.fused import at_columns
from fairseq_gmlm.decoding.state import ChainState, Prediction, true_first
from fairseq_gmlm.models.memory import Memory

_SAMPLING_STREAM = 1 << 20  # one stream per pass, apart from those of starts
_AT_A_TIME = 256  # positions whose log-probabilities are held at once

# (logits (R, n, V), state, columns (R, n), step) -> logits; may write in place
LogitHook = Callable[[Tensor, ChainState, Tensor, int], Tensor]


class ModelConditional:
    """One model, or an ensemble whose probabilities are averaged.

    Args:
        models: ``gmlm_transformer`` models with one dictionary.
        memories: their encodings of the batch.
        choice: greedy or sampling.
        banned: ids that can never be chosen.
        padded: rows differ in length.
        needs_approval: predictions carry the mean verdict of the models' rejecter heads.
        needs_logits: predictions carry their logits.
        temperature: float (B,), one for each sentence in place of the run's.
        logit_hook: user's constraint on logits; what is banned stays banned after it.
        distinct: no prediction equals its neighbour (greedy only).
        recorder: where attention maps go (those of the first model).
    """

    def __init__(
        self,
        models: Sequence[Any],
        memories: List[Memory],
        choice: Choice,
        banned: Tensor,
        padded: bool,
        needs_approval: bool = False,
        needs_logits: bool = False,
        temperature: Optional[Tensor] = None,
        logit_hook: Optional[LogitHook] = None,
        recorder: Optional[AttentionRecorder] = None,
        distinct: bool = False,
    ) -> None:
        self.models, self.memories, self.choice = models, memories, choice
        self.banned, self.padded = banned, padded
        self.needs_approval, self.needs_logits = needs_approval, needs_logits
        self.temperature, self.logit_hook, self.recorder = temperature, logit_hook, recorder
        self.distinct = distinct

    def select(self, sentences: Tensor) -> "ModelConditional":
        """The same for a part of the sentences."""
        part = copy.copy(self)
        part.memories = [memory.select(sentences) for memory in self.memories]
        if self.temperature is not None:
            part.temperature = self.temperature[sentences]
        return part

    def _logits(self, hidden: List[Tensor]) -> Tensor:
        """float32 (N, V) from each model's (N, d)."""
        parts = [model.logits(h).float() for model, h in zip(self.models, hidden)]
        if len(parts) > 1:
            log_probs = torch.stack([part.log_softmax(-1) for part in parts])
            parts = [log_probs.logsumexp(0) - math.log(len(parts))]
        return parts[0]

    def _hooked(self, logits: Tensor, state: ChainState, index: Optional[Tensor], step: int):
        """Logits (N, V) after the user's hook."""
        if index is None:
            columns = torch.arange(state.tokens.size(1), device=logits.device)
            index = columns.expand_as(state.tokens)
        shaped = logits.view(*index.shape, -1)
        return self.logit_hook(shaped, state, index, step).reshape_as(logits)

    def _allowed(
        self, hidden: List[Tensor], state: ChainState, index: Optional[Tensor], step: int
    ) -> Tensor:
        """Logits (N, V) with what can never be predicted at -inf."""
        logits = self._logits(hidden)
        if self.logit_hook is not None:
            logits = self._hooked(logits, state, index, step)
        if self.banned.numel():
            logits.index_fill_(-1, self.banned, -torch.inf)
        return logits

    def _columns(
        self, state: ChainState, step: int, columns: Optional[Tensor]
    ) -> Tuple[Optional[List[Tensor]], List[Tensor]]:
        """Each model's states: all (R, T, d), if they had to be computed, and those at ``columns``.

        Args:
            columns: int64 (R, n); None: all.

        Returns:
            (R, T, d) each or None, and (R * n, d) each.
        """
        whole = columns is None or self.needs_approval or self.recorder is not None
        if not whole and all(getattr(m, "decodes_columns", False) for m in self.models):
            states = [
                model.decode(state.tokens, memory, self.padded, columns=columns).states
                for model, memory in zip(self.models, self.memories)
            ]
            return None, [s.flatten(0, 1) for s in states]
        states = self._states(state, step)
        if columns is None:
            return states, [s.flatten(0, 1) for s in states]
        return states, [at_columns(s, columns).flatten(0, 1) for s in states]

    def _states(self, state: ChainState, step: int) -> List[Tensor]:
        """Each model's decoder states (R, T, d)."""
        recorded = self.recorder is not None and self.recorder.wants(step)
        return [
            decode_recorded(model, state.tokens, memory, self.padded, state.rows, self.recorder)
            if recorded and number == 0
            else model.decode(state.tokens, memory, self.padded).states
            for number, (model, memory) in enumerate(zip(self.models, self.memories))
        ]

    def __call__(self, state: ChainState, where: Tensor, step: int) -> Prediction:
        """One decoder pass; logits only at the positions of ``where``."""
        index = positions_read(where)
        states, hidden = self._columns(state, step, index)
        uniform, temperature = state.scores.new_empty(0), None
        if self.temperature is not None:
            each = state.tokens.size(0) // self.temperature.size(0)
            each *= where.size(1) if index is None else index.size(1)
            temperature = self.temperature.repeat_interleave(each)
        if temperature is not None or not self.choice.greedy:
            uniform = state.rng.per_position(_SAMPLING_STREAM + step, state.place)
            uniform = (uniform if index is None else uniform.gather(1, index)).flatten()
        logits = self._allowed(hidden, state, index, step)
        values = self.choice.pick(logits, uniform, temperature)
        tokens, scores = (spread(v, index, where) for v in values[:2])
        best = scores if values[2] is values[1] else spread(values[2], index, where)
        if self.distinct:
            tokens, scores = without_stutter(tokens, scores, logits, state, where, index)
        approval = None
        if self.needs_approval:
            verdicts = [model.approval(s) for model, s in zip(self.models, states)]
            approval = torch.stack(verdicts).mean(0)
        summand = spread_rows(logits, index, where) if self.needs_logits else None
        return Prediction(tokens, scores, best, approval, summand)

    def for_scoring(self, padded: bool) -> "ModelConditional":
        """The same for :meth:`log_probs`: no verdicts, and attention is not recorded."""
        scorer = copy.copy(self)
        scorer.needs_approval, scorer.recorder, scorer.padded = False, None, padded
        return scorer

    def log_probs(self, state: ChainState, where: Tensor, step: int) -> Tensor:
        """Log-probabilities of the draft's tokens given ``state.tokens``, float (R, T).

        Args:
            state: what is shown, and the draft.
            where: bool (R, T), tokens that are asked for; zero elsewhere.
            step: for the user's hook.
        """
        index = positions_read(where)
        _, hidden = self._columns(state, step, index)
        logits = self._allowed(hidden, state, index, step)
        asked = state.draft if index is None else state.draft.gather(1, index)
        pairs = zip(logits.split(_AT_A_TIME), asked.reshape(-1, 1).split(_AT_A_TIME))
        found = torch.cat([part.log_softmax(-1).gather(-1, token) for part, token in pairs])
        return spread(found.squeeze(-1), index, where).masked_fill(~where, 0.0)


def check_ensemble(models: Sequence[Any]) -> None:
    """All models must have been trained with the same dictionaries.

    Raises:
        ValueError: they were not.
    """
    for number, model in enumerate(models[1:], 2):
        if not torch.equal(model.dictionary_version, models[0].dictionary_version):
            raise ValueError(
                f"model {number} of --path has other dictionaries than the first; an ensemble needs "
                "models trained on one data-bin with one --mask-range"
            )


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
    return true_first(where)[:, : max(most, 1)]


def spread(values: Tensor, index: Optional[Tensor], like: Tensor) -> Tensor:
    """Values (R * n,) back to their columns, (R, T); zero where nothing was read."""
    if index is None:
        return values.view_as(like)
    full = torch.zeros(like.shape, dtype=values.dtype, device=values.device)
    return full.scatter_(1, index, values.view(index.shape))


def spread_rows(values: Tensor, index: Optional[Tensor], like: Tensor) -> Tensor:
    """Rows (R * n, V) back to their columns, (R, T, V); zero where nothing was read."""
    width = values.size(-1)
    if index is None:
        return values.view(*like.shape, width)
    full = values.new_zeros(*like.shape, width)
    place = index[..., None].expand(-1, -1, width)
    return full.scatter_(1, place, values.view(*index.shape, width))
