"""Predictions of one pass in which no two neighbours are equal.

Positions that are predicted in parallel do not see each other, so two of them often pick the same
word (stutter, spec 6). Of all sentences without such repeats the product of the pass' distributions
is maximised here, exactly: Viterbi over each position's three best tokens. Three are enough, since a
position's two neighbours can forbid it no more than two.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.decoding.remasking import stutter
from fairseq_gmlm.decoding.state import ChainState

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
    width, options = tokens.shape[1:]
    tokens = torch.where(where[..., None], tokens, given[..., None])
    alone = log_probs.new_tensor([0.0] + [-torch.inf] * (options - 1))
    scores = torch.where(where[..., None], log_probs, alone)
    counts = (free[:, 1:] & free[:, :-1])[..., None, None]
    same = tokens[:, :-1, :, None].eq(tokens[:, 1:, None, :])
    penalty = torch.where(same & counts, _REPEAT, 0.0).to(scores.dtype)  # (R, T - 1, from, to)
    best, back = scores[:, 0], []
    for t in range(1, width):
        reach, origin = (best[:, :, None] + penalty[:, t - 1]).max(1)
        best = reach + scores[:, t]
        back.append(origin)
    index = best.argmax(1, keepdim=True)
    path = [index]
    for origin in reversed(back):
        index = origin.gather(1, index)
        path.append(index)
    chosen = torch.cat(path[::-1], 1)[..., None]
    picked = scores.gather(2, chosen).squeeze(2)
    return tokens.gather(2, chosen).squeeze(2), torch.where(where, picked, torch.zeros_like(picked))


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
    own = logits.view(where.size(0), -1, logits.size(-1))[rows]
    top = own.topk(min(3, own.size(-1)), -1)
    place = columns[..., None].expand_as(top.indices)
    shape = (*where[rows].shape, top.indices.size(-1))
    log_probs = own.new_zeros(shape).scatter_(1, place, top.values - own.logsumexp(-1, True))
    best = top.indices.new_zeros(shape).scatter_(1, place, top.indices)
    found, values = distinct_neighbours(log_probs, best, where[rows], draft[rows], state.free[rows])
    return tokens.index_copy(0, rows, found), scores.index_copy(0, rows, values)
