"""fairseq's pairs, with BOS in front of targets and no sentence left out."""

from typing import Any, Dict, List, Optional

import numpy as np
from fairseq.data import LanguagePairDataset, PrependTokenDataset, data_utils

from fairseq_gmlm.data.batching import CompleteBatches, bucketed


class PairDataset(CompleteBatches, LanguagePairDataset):
    """A :class:`LanguagePairDataset` that keeps its last batch, and its batches after a restart.

    Recent fairseq shuffles equal lengths by seed and the epoch in which the process was started, so
    that a run resumed in a later epoch would get other batches.
    """

    order_seed: int = 1

    @classmethod
    def of(
        cls,
        data: LanguagePairDataset,
        source_bos: Optional[int],
        order_seed: int = 1,
        buckets: int = 0,
    ) -> "PairDataset":
        """The same data with BOS before each target, and before sources if ``source_bos``.

        Args:
            data: pairs as fairseq loads them, without buckets of their own: those pad each item, and
                BOS would end up on the far side of the padding.
            source_bos: its id, or None.
            order_seed: decides in which order pairs of equal lengths stand.
            buckets: pad each side to at most so many widths (``--num-batch-buckets``); 0: to the
                longest of each batch.
        """
        new = cls.__new__(cls)
        new.__dict__.update(data.__dict__)
        new.order_seed = order_seed
        if new.tgt is not None:
            new.tgt = PrependTokenDataset(new.tgt, new.tgt_dict.bos())
            new.tgt_sizes = new.tgt_sizes + 1
        if source_bos is not None:
            new.src = PrependTokenDataset(new.src, source_bos)
            new.src_sizes = new.src_sizes + 1
        if buckets:
            new._bucket(buckets)
        sizes = [new.src_sizes] if new.tgt is None else [new.src_sizes, new.tgt_sizes]
        new.sizes = np.vstack(sizes).T if len(sizes) > 1 else sizes[0]
        new.input_feeding = False  # the task makes the decoder's input itself
        return new

    def _bucket(self, buckets: int) -> None:
        """From here on sizes count the padding, as limits on batches must."""
        self.src_sizes = bucketed(self.src_sizes, buckets)
        if self.tgt_sizes is not None:
            self.tgt_sizes = bucketed(self.tgt_sizes, buckets)
        self.bucketed_num_tokens = self.num_tokens_vec(np.arange(len(self)))
        self.buckets = [(None, int(width)) for width in np.unique(self.bucketed_num_tokens)]

    def ordered_indices(self) -> np.ndarray:
        """By length; equal ones in an order that depends on the run's seed alone."""
        with data_utils.numpy_seed(self.order_seed):
            indices = super().ordered_indices()
        if self.buckets is None or self.tgt_sizes is None:
            return indices
        # fairseq sorts by the wider side alone, which leaves the other one's widths mixed.
        keys = self.tgt_sizes[indices], self.src_sizes[indices], self.bucketed_num_tokens[indices]
        return indices[np.lexsort(keys)]

    def collater(
        self, samples: List[Dict[str, Any]], pad_to_length: Optional[Dict[str, int]] = None
    ) -> Dict[str, Any]:
        """fairseq's batch; with buckets, padded to the widest bucket of each side."""
        if self.buckets is not None and pad_to_length is None and samples:
            ids = [sample["id"] for sample in samples]
            sides = {"source": self.src_sizes, "target": self.tgt_sizes}
            pad_to_length = {k: int(v[ids].max()) for k, v in sides.items() if v is not None}
            pad_to_length.setdefault("target", 0)
        return super().collater(samples, pad_to_length)
