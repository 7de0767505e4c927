"""Reranking with an autoregressive model, in one forward pass over all candidates."""

from typing import Any, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.chain import ChainResult
from fairseq_gmlm.decoding.state import true_first
from fairseq_gmlm.vocabulary import MASK


def check_reranker(reranker: Any, model: Any) -> None:
    """A reranker must be autoregressive and know the same words under the same ids.

    Args:
        reranker: the last model of ``--path``.
        model: the GMLM, whose dictionaries end with the symbols that this plugin adds.

    Raises:
        ValueError: it does not.
    """
    if hasattr(reranker, "length_predictor"):
        raise ValueError(
            "--iter-decode-with-external-reranker takes the last checkpoint of --path as the "
            "reranker, which must be an autoregressive model; this one is a GMLM"
        )
    for side, name in (("encoder", "source"), ("decoder", "target")):
        theirs = getattr(reranker, side).dictionary.symbols
        ours = getattr(model, side).dictionary.symbols
        if theirs != ours[: len(theirs)] or ours.index(MASK) > len(theirs):
            raise ValueError(
                f"the reranker's {name} dictionary ({len(theirs)} symbols) is not the GMLM's "
                f"({ours.index(MASK)} symbols without masks); train both on one data-bin"
            )


def check_sizes(model: Any, state: Any) -> None:
    """Refuse weights of an autoregressive model that was trained with other dictionaries.

    Args:
        model: built for the dictionaries at hand.
        state: the checkpoint's parameters; it holds no symbols, so that only sizes can be checked.

    Raises:
        ValueError: sizes differ.
    """
    for side, name in (("encoder", "source"), ("decoder", "target")):
        rows = state.get(f"{side}.embed_tokens.weight")
        size = len(getattr(model, side).dictionary)
        if rows is not None and rows.size(0) != size:
            raise ValueError(
                f"the reranker's {name} dictionary has {rows.size(0)} symbols, the data's has "
                f"{size}; the last model of --path must have been trained on this data-bin (or one "
                "made with its dict files)"
            )


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
    order = true_first(kept)[:, :width]
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
