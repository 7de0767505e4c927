"""Reranking with an autoregressive model, in one forward pass over all candidates."""

from typing import Any, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.chain import ChainResult


def rerank(
    reranker: Any,
    src_tokens: Tensor,
    src_lengths: Optional[Tensor],
    result: ChainResult,
    count: int,
    model: Any,
) -> Tensor:
    """Mean log-probability of each candidate, EOS included, under the reranker, float (B, K).

    Args:
        reranker: an autoregressive fairseq encoder-decoder with the same dictionaries.
        src_tokens, src_lengths: sources, as the generator got them.
        result: finished chains, K rows a sentence.
        count: K.
        model: the GMLM, for its vocabulary.
    """
    vocabulary = model.vocabulary
    kept = result.free & ~result.dropped
    lengths = kept.sum(1)
    width = int(lengths.max()) + 1
    order = kept.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
    column = torch.arange(width, device=order.device)[None]
    target = result.tokens.gather(1, order).masked_fill(column > lengths[:, None], vocabulary.pad)
    target = target.masked_fill(column == lengths[:, None], vocabulary.eos)
    # An autoregressive fairseq model starts from EOS.
    previous = target.roll(1, 1)
    previous[:, 0] = vocabulary.eos
    if src_lengths is None:
        src_lengths = src_tokens.ne(vocabulary.pad).sum(1)
    src = src_tokens.repeat_interleave(count, 0)
    output = reranker(src, src_lengths.repeat_interleave(count, 0), previous)
    log_probs = reranker.get_normalized_probs(output, log_probs=True)
    real = column <= lengths[:, None]
    scores = log_probs.gather(-1, target[..., None]).squeeze(-1).masked_fill(~real, 0.0).sum(1)
    return (scores / real.sum(1)).view(-1, count)
