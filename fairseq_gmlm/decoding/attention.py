"""Attention maps of a chosen pass, and alignments read from them."""

from typing import Any, List, Optional, Tuple

from torch import Tensor

from fairseq_gmlm.models.memory import Memory

LAST = 0


class AttentionRecorder:
    """Keeps the maps of one pass for every row of a batch.

    Args:
        chosen: number of the pass, 1 the first; 0 (``LAST``): the last that each row took part in.
            A row that stops earlier keeps its last one.

    Attributes:
        self_attention: (R, layers, heads, T, T), filled by the chain.
        cross_attention: (R, layers, heads, T, S).
    """

    def __init__(self, chosen: int = LAST) -> None:
        self.chosen = chosen
        self.self_attention: Optional[Tensor] = None
        self.cross_attention: Optional[Tensor] = None

    def wants(self, step: int) -> bool:
        """Whether the maps of pass ``step`` (from 0) are needed; other passes stay fast."""
        return self.chosen == LAST or step < self.chosen

    def store(self, rows: Tensor, decoded: Any) -> None:
        """Take the maps of a pass over ``rows`` (int64 (R',)); all rows take part in the first."""
        if self.self_attention is None:
            self.self_attention = decoded.self_attention
            self.cross_attention = decoded.cross_attention
            return
        self.self_attention = self.self_attention.index_copy(0, rows, decoded.self_attention)
        self.cross_attention = self.cross_attention.index_copy(0, rows, decoded.cross_attention)


def decode_recorded(
    model: Any, tokens: Tensor, memory: Memory, padded: bool, rows: Tensor, recorder: Any
) -> Tensor:
    """States (R, T, d) of a pass whose maps go to ``recorder``."""
    decoded = model.decode(tokens, memory, padded, need_weights=True)
    recorder.store(rows, decoded)
    return decoded.states


def last_layer(cross_attention: Tensor) -> Tensor:
    """(T, S), mean over the heads of the last layer, from (layers, heads, T, S)."""
    return cross_attention[-1].float().mean(0)


def hard_alignment(weights: Tensor, words: Tensor) -> List[Tuple[int, int]]:
    """Pairs (source, target) from 0, one for each target word.

    Args:
        weights: (T', S'), attention of the target's words on the source's tokens.
        words: bool (S'), source tokens that are words: neither BOS nor EOS.

    Returns:
        for each target word the source word that it attends to most; words are counted without
        BOS and EOS. Empty if the source has no word.
    """
    if not bool(words.any()):
        return []
    best = weights.masked_fill(~words, -1.0).argmax(1)
    number = words.long().cumsum(0) - 1
    return [(int(number[source]), target) for target, source in enumerate(best.tolist())]


def soft_alignment(weights: Tensor) -> List[List[str]]:
    """Attention weights as fairseq prints them: per target token, one number per source token."""
    return [[f"{weight:.6f}" for weight in row] for row in weights.tolist()]


def hypothesis_attention(
    recorder: AttentionRecorder,
    row: int,
    keep: Tensor,
    source: Tensor,
    words: Tensor,
    alignment: str,
) -> dict:
    """Entries of a hypothesis.

    Args:
        recorder: after the chain.
        row: of the batch's chains.
        keep: bool (T,), canvas positions in the hypothesis, BOS first and EOS last.
        source: bool (S,), columns that are not padding.
        words: bool (S,), those that are words.
        alignment: ``hard``, ``soft`` or empty.

    Returns:
        ``self_attention`` (layers, heads, T', T'), ``cross_attention`` (layers, heads, T', S'),
        ``attention`` (S', T'), fairseq's, the mean over the heads of the last layer, and
        ``alignment``.
    """
    inner = recorder.self_attention[row][:, :, keep][:, :, :, keep].cpu()
    cross = recorder.cross_attention[row][:, :, keep][:, :, :, source].cpu()
    weights = last_layer(cross)
    found: dict = {
        "self_attention": inner,
        "cross_attention": cross,
        "attention": weights.t().contiguous(),
        "alignment": [],
    }
    if alignment == "hard":
        found["alignment"] = hard_alignment(weights[1:-1], words[source].cpu())
    elif alignment == "soft":
        found["alignment"] = soft_alignment(weights[1:])
    return found
