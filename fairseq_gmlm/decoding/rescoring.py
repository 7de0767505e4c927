"""Candidates scored anew by the model that wrote them, for the choice among lengths.

A chain's score of a token is its log-probability in the pass that wrote it, when other positions
still held masks or tokens that have been replaced since. Here finished candidates are read again:
each of N passes hides every N-th token and asks for it given the others, a blockwise
pseudo-likelihood (spec 1.1 with blocks).
"""

from dataclasses import replace

import torch

from fairseq_gmlm.decoding.chain import ChainResult
from fairseq_gmlm.decoding.conditional import ModelConditional
from fairseq_gmlm.decoding.state import ChainState, true_first


@torch.no_grad()
def rescored(
    conditional: ModelConditional, start: ChainState, result: ChainResult, passes: int
) -> ChainResult:
    """The result with new scores, its passes counted.

    Positions that the output leaves out are left out here too, so that the model reads what a user
    would. Hidden positions show what stood there at the start.

    Args:
        conditional: of the whole batch.
        start: the state that the chain began with.
        result: of the chain, R rows.
        passes: N, at least 2.

    Returns:
        each kept token's score is the mean of the chain's and the new log-probability.
    """
    if result.rows.numel() < start.rows.numel():
        start = start.select(result.rows)
    column = torch.arange(start.tokens.size(1), device=start.tokens.device)[None]
    kept = (column < result.free.sum(1, keepdim=True) + 2) & ~result.dropped  # with BOS and EOS
    lengths = kept.sum(1, keepdim=True)
    order = true_first(kept)
    real = column < lengths
    pad = conditional.models[0].vocabulary.pad
    tokens = result.tokens.gather(1, order).masked_fill(~real, pad)
    free = result.free.gather(1, order) & real
    # BOS stands in column 0, so that a row's first token belongs to the first block.
    block = (column - 1) % passes
    initial, scores = start.initial.gather(1, order), torch.zeros_like(result.scores)
    scorer = conditional.for_scoring(padded=bool((lengths < column.size(1)).any()))
    for number in range(passes):
        hidden = free & (block == number)
        shown = torch.where(hidden, initial, tokens)
        state = replace(start, tokens=shown, shown=shown, draft=tokens, free=free)
        scores += scorer.log_probs(state, hidden, number)
    scores = torch.zeros_like(scores).scatter(1, order, scores)
    return replace(result, scores=(result.scores + scores) / 2, passes=result.passes + passes)
