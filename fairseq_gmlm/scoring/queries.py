"""Which tokens are hidden and which are asked for, for every kind of score."""

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.orders import inverse
from fairseq_gmlm.scoring.packing import Queries

_ORDER, _SIZE, _SUBSET = 11, 12, 13


def ordered(ranks: Tensor) -> Queries:
    """n questions: step t sees what came before it in the order.

    Args:
        ranks: int64 (n,), when each token is revealed, from 0 (spec 7.3).
    """
    step = torch.arange(len(ranks))[:, None]
    return Queries(ranks[None] >= step, ranks[None] == step)


def one_hidden(count: int) -> Queries:
    """n questions: each token given all the others (Besag's pseudo-likelihood, spec 1.1)."""
    eye = torch.eye(count, dtype=torch.bool)
    return Queries(eye, eye)


def random_ranks(count: int, orders: int, rng: CounterRNG) -> Tensor:
    """Uniform random orders of n tokens: ranks, int64 (orders, n).

    Args:
        count: n.
        orders: how many.
        rng: keyed by one row, the text's.
    """
    places = torch.arange(orders * count)
    draws = rng.per_position(_ORDER, places).view(orders, count)
    return inverse(draws.argsort(dim=1, stable=True))


def random_subsets(count: int, samples: int, rng: CounterRNG) -> Queries:
    """Hidden sets with a size uniform on 1 .. n, and uniform given their size; all are asked for."""
    size_draw = rng.per_position(_SIZE, torch.arange(samples)).view(samples, 1)
    size = (1 + (size_draw * count).floor()).clamp(max=count)
    places = torch.arange(samples * count)
    draws = rng.per_position(_SUBSET, places).view(samples, count)
    hidden = inverse(draws.argsort(dim=1, stable=True)) < size
    return Queries(hidden, hidden)


def all_subsets(count: int) -> Queries:
    """Every set of hidden tokens, row m hiding those whose bit is set in m; row 0 asks nothing."""
    number = torch.arange(1 << count)[:, None]
    hidden = (number >> torch.arange(count)[None]) & 1 == 1
    return Queries(hidden, hidden)
