"""Batches without a sentence left out, and lengths rounded up to a few widths."""

from typing import Any, Callable, List, Optional, Sequence

import numpy as np


class CompleteBatches:
    """Mixed into a dataset before fairseq's own class: every sentence is in exactly one batch.

    Recent fairseq drops the last batch if its size is no multiple of
    ``--required-batch-size-multiple`` (8 by default), so that ``fairseq-generate`` silently leaves
    out up to seven sentences.
    """

    def batch_by_size(
        self,
        indices: Sequence[int],
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        required_batch_size_multiple: int = 1,
    ) -> List[Any]:
        """fairseq's batches, and after them what it left out."""
        batches = super().batch_by_size(
            indices, max_tokens, max_sentences, required_batch_size_multiple
        )
        return with_left_out(indices, list(batches), self.num_tokens, max_tokens, max_sentences)


def with_left_out(
    indices: Sequence[int],
    batches: List[Any],
    num_tokens: Callable[[int], int],
    max_tokens: Optional[int] = None,
    max_sentences: Optional[int] = None,
) -> List[Any]:
    """``batches``, and after them those ``indices`` that are in none, in order, within the limits.

    Args:
        indices: what must be in a batch.
        batches: made of some of them.
        num_tokens: length of the longer side of a sentence.
        max_tokens: limit of sentences times longest sentence; one sentence alone may exceed it.
        max_sentences: limit of sentences.
    """
    covered = {int(i) for batch in batches for i in batch}
    batch: List[int] = []
    longest = 0
    for index in (int(i) for i in indices if int(i) not in covered):
        longest = max(longest, num_tokens(index))
        full = max_sentences is not None and len(batch) >= max_sentences
        if batch and (full or (max_tokens is not None and (len(batch) + 1) * longest > max_tokens)):
            batches.append(np.array(batch, dtype=np.int64))
            batch, longest = [], num_tokens(index)
        batch.append(index)
    if batch:
        batches.append(np.array(batch, dtype=np.int64))
    return batches


def bucketed(sizes: np.ndarray, count: int) -> np.ndarray:
    """Each size (n,) rounded up to one of at most ``count`` widths, quantiles of the sizes.

    Nothing is longer than the last width, which is the longest size.
    """
    if not len(sizes):
        return sizes
    ranks = np.ceil(np.linspace(0, len(sizes), count + 1)[1:]).astype(np.int64) - 1
    widths = np.unique(np.sort(sizes)[ranks])
    return widths[np.searchsorted(widths, sizes)]
