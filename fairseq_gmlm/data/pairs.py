"""fairseq's pairs, with BOS in front of targets and no sentence left out."""

from typing import Any, List, Optional, Sequence

import numpy as np
from fairseq.data import LanguagePairDataset, PrependTokenDataset, data_utils


class PairDataset(LanguagePairDataset):
    """A :class:`LanguagePairDataset` that keeps its last batch, and its batches after a restart.

    Recent fairseq drops the last batch if its size is no multiple of
    ``--required-batch-size-multiple`` (8 by default), so that ``fairseq-generate`` silently leaves
    out up to seven sentences. It also shuffles equal lengths by seed and the epoch in which the
    process was started, so that a run resumed in a later epoch would get other batches.
    """

    order_seed: int = 1

    @classmethod
    def of(
        cls, data: LanguagePairDataset, source_bos: Optional[int], order_seed: int = 1
    ) -> "PairDataset":
        """The same data with BOS before each target, and before sources if ``source_bos``."""
        new = cls.__new__(cls)
        new.__dict__.update(data.__dict__)
        new.order_seed = order_seed
        if new.tgt is not None:
            new.tgt = PrependTokenDataset(new.tgt, new.tgt_dict.bos())
            new.tgt_sizes = new.tgt_sizes + 1
        if source_bos is not None:
            new.src = PrependTokenDataset(new.src, source_bos)
            new.src_sizes = new.src_sizes + 1
        sizes = [new.src_sizes] if new.tgt is None else [new.src_sizes, new.tgt_sizes]
        new.sizes = np.vstack(sizes).T if len(sizes) > 1 else sizes[0]
        new.input_feeding = False  # the task makes the decoder's input itself
        return new

    def ordered_indices(self) -> np.ndarray:
        """By length; equal ones in an order that depends on the run's seed alone."""
        with data_utils.numpy_seed(self.order_seed):
            return super().ordered_indices()

    def batch_by_size(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> List[Any]:
        """fairseq's batches, and the sentences that it left out as one more."""
        batches = list(super().batch_by_size(indices, *args, **kwargs))
        return with_left_out(indices, batches)


def with_left_out(indices: Sequence[int], batches: List[Any]) -> List[Any]:
    """``batches`` plus one of those ``indices`` that are in none of them, in order."""
    covered = {int(i) for batch in batches for i in batch}
    left = [int(i) for i in indices if int(i) not in covered]
    if left:
        batches.append(np.array(left, dtype=np.int64))
    return batches
