"""Predictions of one pass in which no two neighbours are equal.

Positions that are predicted in parallel do not see each other, so two of them often pick the same
word (stutter, spec 6). Of all sentences without such repeats the product of the pass' distributions
is maximised here, exactly: Viterbi over each position's three best tokens. Three are enough, since a
position's two neighbours can forbid it no more than two.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.decoding.choice import best_tokens
from fairseq_gmlm.decoding.remasking import stutter
from fairseq_gmlm.decoding.state import ChainState

_AT_A_TIME = 8  # rows

# Finite, so that a row in which repeats are given (a template's) still has a best path.
_REPEAT = -1e4


def distinct_neighbours(
    log_probs: Tensor, tokens: Tensor, where: Tensor, given: Tensor, free: Tensor
) -> Tuple[Tensor, Tensor]:
    """The likeliest tokens without equal neighbours.

    Args:
        log_probs: float (R, T, 3), of the three best tokens of each position, best first; read at
            ``where`` only.
        tokens: int64 (R, T, 3), those tokens.
        where: bool (R, T), positions that are predicted; the others keep ``given``.
        given: int64 (R, T), what stands elsewhere.
        free: bool (R, T); a repeat counts only if both neighbours are free.

    Returns:
        tokens (R, T), ``given`` outside ``where``, and their log-probabilities (R, T), zero there.
    """
    options = tokens.size(2)
    tokens = torch.where(where[..., None], tokens, given[..., None])
    alone = log_probs.new_tensor([0.0] + [-torch.inf] * (options - 1))
    scores = torch.where(where[..., None], log_probs, alone)
    counts = (free[:, 1:] & free[:, :-1])[..., None, None]
    same = tokens[:, :-1, :, None].eq(tokens[:, 1:, None, :])
    # What a token and the one before it are worth, (R, T - 1, from, to).
    steps = torch.where(same & counts, _REPEAT, 0.0).to(scores.dtype) + scores[:, 1:, None]
    best, back = scores[:, 0], []
    for step in steps.unbind(1):
        best, origin = (best[:, :, None] + step).max(1)
        back.append(origin)
    index = best.argmax(1, keepdim=True)
    path = [index]
    for origin in reversed(back):
        index = origin.gather(1, index)
        path.append(index)
    chosen = torch.cat(path[::-1], 1)[..., None]
    picked = scores.gather(2, chosen).squeeze(2)
    return tokens.gather(2, chosen).squeeze(2), torch.where(where, picked, torch.zeros_like(picked))


def three_best(logits: Tensor, rows: Tensor, first: Tensor) -> Tuple[Tensor, Tensor]:
    """The three best logits at each position of some rows, and their tokens.

    Two more searches for the best are faster than ``topk`` on a CPU; they write into copies of a few
    rows at a time, which stay in its cache.

    Args:
        logits: float32 (R, n, V).
        rows: int64 (r,), which to look at.
        first: int64 (r, n), their best tokens.

    Returns:
        (r, n, 3) each, best first.
    """
    values, tokens = [], []
    for part, best in zip(rows.split(_AT_A_TIME), first.split(_AT_A_TIME)):
        own, found = logits[part].flatten(0, 1), [best.reshape(-1, 1)]
        amounts = [own.gather(1, found[0])]
        for _ in range(2):
            own.scatter_(1, found[-1], -torch.inf)
            found.append(best_tokens(own)[:, None])
            amounts.append(own.gather(1, found[-1]))
        values.append(torch.cat(amounts, 1).view(*best.shape, 3))
        tokens.append(torch.cat(found, 1).view(*best.shape, 3))
    return torch.cat(values), torch.cat(tokens)


def without_stutter(
    tokens: Tensor,
    scores: Tensor,
    logits: Tensor,
    state: ChainState,
    where: Tensor,
    index: Optional[Tensor],
) -> Tuple[Tensor, Tensor]:
    """Greedy predictions, those of rows with stutter replaced by :func:`distinct_neighbours`.

    Args:
        tokens, scores: (R, T), the best token at ``where`` and its log-probability.
        logits: float32 (R * n, V), of the columns ``index``.
        state: the chain, whose draft stands where nothing is predicted.
        where: bool (R, T).
        index: int64 (R, n), columns that ``logits`` belong to; None: all.
    """
    draft = torch.where(where, tokens, state.draft)
    rows = stutter(draft, state.free).any(1).nonzero().squeeze(1)
    if not rows.numel():
        return tokens, scores
    width = where.size(1)
    columns = torch.arange(width, device=where.device).expand(rows.numel(), width)
    if index is not None:
        columns = index[rows]
    shaped = logits.view(where.size(0), -1, logits.size(-1))
    values, best = three_best(shaped, rows, tokens[rows].gather(1, columns))
    # The best token's score tells by how much its logit is above its log-probability.
    values += (scores[rows].gather(1, columns) - values[..., 0])[..., None]
    place, shape = columns[..., None].expand(-1, -1, 3), (rows.numel(), width, 3)
    log_probs = values.new_zeros(shape).scatter_(1, place, values)
    top = best.new_zeros(shape).scatter_(1, place, best)
    found, values = distinct_neighbours(log_probs, top, where[rows], draft[rows], state.free[rows])
    return tokens.index_copy(0, rows, found), scores.index_copy(0, rows, values)
