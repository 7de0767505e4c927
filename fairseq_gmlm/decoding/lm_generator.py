"""Completing texts with a language model, by the same chain as translations."""

from typing import Any, List, NamedTuple, Optional, Sequence

import torch

from fairseq_gmlm.decoding.canvas import Canvas, NoSource, WholeWords, start_canvases
from fairseq_gmlm.decoding.chain import run_chain
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.conditional import ModelConditional
from fairseq_gmlm.decoding.strategies.base import Strategy


class Completion(NamedTuple):
    """A completed canvas.

    Attributes:
        tokens: ids between BOS and EOS.
        score: summed log-probability (nats) of the filled tokens when they were chosen, divided by
            their number ** ``length_penalty``; 0 if nothing was to be filled.
        passes: model runs.
    """

    tokens: List[int]
    score: float
    passes: int


class TextGenerator:
    """Fills canvases.

    Args:
        models: ``gmlm_lm`` models with one dictionary; probabilities are averaged.
        strategy: what the chain does.
        choice: greedy or sampling.
        passes: most model runs; 0: as many as there are free positions for strategies that keep
            what they have revealed, 10 for others.
        seed: of random orders, starts and samples.
        allow_unk: the unknown symbol may be filled in.
        max_tokens: tokens (padding included) in one batch.
        length_penalty: see :class:`Completion`.
        table: where words begin, for canvases that demand it (``words.WordTable``).

    Raises:
        ValueError: a model of another kind.
    """

    def __init__(
        self,
        models: Sequence[Any],
        strategy: Strategy,
        choice: Choice,
        passes: int = 0,
        seed: int = 1,
        allow_unk: bool = False,
        max_tokens: int = 4096,
        length_penalty: float = 1.0,
        table: Optional[Any] = None,
    ) -> None:
        for model in models:
            if not hasattr(model, "lm_head") or getattr(model, "vocabulary", None) is None:
                raise ValueError(
                    f"{type(model).__name__} is no masked language model; give a checkpoint of "
                    "--arch gmlm_lm trained with --task language_modeling_gmlm"
                )
        self.models, self.strategy, self.choice = list(models), strategy, choice
        self.passes, self.seed, self.max_tokens = passes, seed, max_tokens
        self.length_penalty, self.table = length_penalty, table
        self.vocabulary = models[0].vocabulary
        banned = models[0].banned
        self.banned = self.vocabulary.without_unk(banned) if allow_unk else banned

    @property
    def longest(self) -> int:
        """Most tokens of a text, without BOS and EOS."""
        return min(model.max_positions() for model in self.models) - 2

    def complete(self, canvases: Sequence[Canvas]) -> List[Completion]:
        """Fill all canvases; a canvas is filled alike whatever it is batched with.

        Raises:
            ValueError: a canvas is longer than the model's positions.
        """
        order = sorted(range(len(canvases)), key=lambda i: len(canvases[i].tokens))
        done: List[Completion] = [Completion([], 0.0, 0)] * len(canvases)
        batch: List[int] = []
        for i in order:
            length = len(canvases[i].tokens)
            if length > self.longest:
                raise ValueError(
                    f"a text of {length} tokens is longer than the model's {self.longest}"
                )
            if canvases[i].free == 0:
                done[i] = Completion(list(canvases[i].tokens), 0.0, 0)
                continue
            if batch and (len(batch) + 1) * (length + 2) > self.max_tokens:
                self._run(canvases, batch, done)
                batch = []
            batch.append(i)
        if batch:
            self._run(canvases, batch, done)
        return done

    @torch.no_grad()
    def _run(self, canvases: Sequence[Canvas], batch: List[int], done: List[Completion]) -> None:
        chosen = [canvases[i] for i in batch]
        keeps = self.strategy.keeps
        most = max(canvas.free for canvas in chosen)
        device = self.models[0].banned.device
        state = start_canvases(chosen, self.vocabulary, self.strategy.start, self.seed, device)
        widths = {len(canvas.tokens) for canvas in chosen}
        hook = None
        if self.table is not None and any(c.firsts or c.lasts for c in chosen):
            hook = WholeWords(chosen, self.table, state.tokens.size(1), device)
        conditional = ModelConditional(
            self.models,
            [NoSource()] * len(self.models),
            self.choice,
            self.banned,
            padded=len(widths) > 1,
            needs_logits=self.strategy.needs_logits,
            logit_hook=hook,
        )
        result = run_chain(
            conditional,
            state,
            self.strategy,
            self.passes or (most if keeps else 10),
            # What has no mask left cannot change, sampled or not; others settle only if greedy.
            early_stop=keeps or self.choice.greedy,
        )
        total = (result.scores * result.free).sum(1).tolist()
        for row, i in enumerate(batch):
            tokens = result.tokens[row, 1 : len(canvases[i].tokens) + 1].tolist()
            count = max(canvases[i].free, 1)
            score = total[row] / count**self.length_penalty
            done[i] = Completion(tokens, score, int(result.passes[row]))
