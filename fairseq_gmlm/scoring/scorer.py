"""Scores of texts, in nats, from any source of conditionals."""

import math
from typing import Callable, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.scoring.packing import Frame, LogProbs, Queries, Text, evaluate
from fairseq_gmlm.scoring.queries import (
    all_subsets,
    one_hidden,
    ordered,
    random_ranks,
    random_subsets,
)

LONGEST_EXACT = 12  # 4,096 hidden sets


class ExactScore(NamedTuple):
    """What enumeration of all hidden sets gives.

    Attributes:
        mean: average log-likelihood over all n! orders; what the diffusion bound estimates.
        mixture: log of the average likelihood over all orders: the law of texts generated in a
            random order. At least ``mean``.
    """

    mean: float
    mixture: float


class Scorer:
    """Scores texts of given length.

    Args:
        log_probs: the model, see :data:`~fairseq_gmlm.scoring.packing.LogProbs`.
        frame: ids around a text.
        max_tokens: tokens in one pass.
        seed: of random orders and subsets; a text's draws depend on this and its key alone.
    """

    def __init__(
        self, log_probs: LogProbs, frame: Frame, max_tokens: int = 4096, seed: int = 1
    ) -> None:
        self.log_probs, self.frame, self.max_tokens, self.seed = log_probs, frame, max_tokens, seed

    def _ask(self, texts: Sequence[Text], build: Callable[[int, int], Queries]) -> List[Tensor]:
        """Answers (Q, n) of each text; ``build`` gets number and n of a text."""
        queries = [build(i, text.count) for i, text in enumerate(texts)]
        return evaluate(self.log_probs, texts, queries, self.frame, self.max_tokens)

    def _rng(self, key: int) -> CounterRNG:
        return CounterRNG(self.seed, torch.tensor([key]))

    def in_order(self, texts: Sequence[Text], ranks: Sequence[Tensor]) -> Tensor:
        """log p in an order, double (texts,): sum over steps of log p(token | what came before).

        Args:
            texts: the texts.
            ranks: for each, int64 (n,), when each scored token is revealed, from 0.
        """
        answers = self._ask(texts, lambda i, n: ordered(ranks[i]))
        return _sums(answers)

    def left_to_right(self, texts: Sequence[Text]) -> Tensor:
        """log p from left to right, double (texts,)."""
        return self.in_order(texts, [torch.arange(text.count) for text in texts])

    def right_to_left(self, texts: Sequence[Text]) -> Tensor:
        """log p from right to left, double (texts,)."""
        return self.in_order(texts, [torch.arange(text.count).flip(0) for text in texts])

    def random_orders(
        self, texts: Sequence[Text], orders: int, keys: Optional[Sequence[int]] = None
    ) -> Tensor:
        """log p in ``orders`` random orders of each text, double (orders, texts).

        Args:
            texts: the texts.
            orders: permutations of each.
            keys: integers that set the texts' draws apart (default: their numbers).
        """
        keys = range(len(texts)) if keys is None else keys
        ranks = [random_ranks(t.count, orders, self._rng(key)) for t, key in zip(texts, keys)]
        results = [self.in_order(texts, [r[k] for r in ranks]) for k in range(orders)]
        return torch.stack(results) if results else torch.zeros(0, len(texts), dtype=torch.double)

    def pseudo(self, texts: Sequence[Text]) -> Tensor:
        """Pseudo-log-likelihood, double (texts,): each token given all the others."""
        return _sums(self._ask(texts, lambda i, n: one_hidden(n)))

    def bound(
        self, texts: Sequence[Text], samples: int, keys: Optional[Sequence[int]] = None
    ) -> Tensor:
        """Estimates of masked diffusion's lower bound, double (samples, texts).

        Their mean over samples estimates the average over all orders of log p (spec 7.1): n / |M|
        times the log-probabilities of the tokens of a random hidden set M, whose size is uniform
        on 1 .. n.
        """
        keys = list(range(len(texts)) if keys is None else keys)
        queries = [random_subsets(t.count, samples, self._rng(key)) for t, key in zip(texts, keys)]
        answers = evaluate(self.log_probs, texts, queries, self.frame, self.max_tokens)
        columns = []
        for text, query, answer in zip(texts, queries, answers):
            size = query.hidden.sum(1).clamp(min=1)
            columns.append(answer.sum(1) * text.count / size)
        return torch.stack(columns, 1) if columns else torch.zeros(samples, 0, dtype=torch.double)

    def exact(self, texts: Sequence[Text]) -> List[ExactScore]:
        """Scores by enumeration of all 2^n hidden sets.

        Raises:
            ValueError: a text has more than 12 scored tokens.
        """
        for text in texts:
            if text.count > LONGEST_EXACT:
                raise ValueError(
                    f"exact scores enumerate 2^n hidden sets: a text of {text.count} tokens is "
                    f"longer than {LONGEST_EXACT}; leave exact out, or cut the text"
                )
        answers = self._ask(texts, lambda i, n: all_subsets(n))
        return [enumerate_orders(answer) for answer in answers]


def enumerate_orders(answers: Tensor) -> ExactScore:
    """From log p(token i | all but hidden set m), double (2^n, n), to scores over all orders.

    The weight of (m, i) in the mean over orders is (|m| - 1)! (n - |m|)! / n! (spec 7.1). For the
    mixture, paths through the sets are summed set by set.
    """
    sets, count = answers.shape
    mean = 0.0
    log_paths = [-math.inf] * sets  # of hidden set m: sum over ways to get there from all hidden
    log_paths[sets - 1] = 0.0
    for m in range(sets - 1, 0, -1):
        size = bin(m).count("1")
        weight = math.factorial(size - 1) * math.factorial(count - size) / math.factorial(count)
        row = answers[m].tolist()
        for i in range(count):
            if m >> i & 1:
                mean += weight * row[i]
                after = m & ~(1 << i)
                log_paths[after] = _log_add(log_paths[after], log_paths[m] + row[i])
    return ExactScore(mean, log_paths[0] - math.lgamma(count + 1))


def _log_add(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _sums(answers: Sequence[Tensor]) -> Tensor:
    return torch.tensor([float(answer.sum()) for answer in answers], dtype=torch.double)
