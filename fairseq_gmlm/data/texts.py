"""Texts without a source, cut from a binarised corpus: sentences or blocks, each in one frame."""

import logging
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils

from fairseq_gmlm.data.batching import CompleteBatches

logger = logging.getLogger(__name__)

BREAK_MODES = ("eos", "none", "complete", "complete_doc")
FRAME = 2  # BOS and EOS around every text


def cut(sizes: Sequence[int], room: int, mode: str) -> np.ndarray:
    """Where texts begin and end in the concatenated corpus.

    Args:
        sizes: tokens of each line, its EOS included; a line of EOS alone separates documents.
        room: most tokens of a text, without BOS and EOS around it.
        mode: fairseq's ``--sample-break-mode``. ``eos``: one line a text. ``none``: ``room``
            tokens a text, wherever lines end. ``complete``: as many whole lines as fit.
            ``complete_doc``: the same, and never across documents. A line that is longer than
            ``room`` is cut into pieces.

    Returns:
        int64 (texts, 2): begin and end of each, the last EOS and document separators left out.

    Raises:
        ValueError: unknown mode, or no room.
    """
    if mode not in BREAK_MODES:
        raise ValueError(f"--sample-break-mode must be one of {BREAK_MODES}, not {mode!r}")
    if room < 1:
        raise ValueError(
            f"--tokens-per-sample {room + FRAME} leaves no room for text between BOS and EOS; "
            "raise it"
        )
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64))
    if mode == "none":
        total = int(ends[-1]) - 1 if len(ends) else 0
        starts = np.arange(0, max(total, 0), room)
        return np.stack([starts, np.minimum(starts + room, total)], 1)
    return np.array(_whole_lines(ends, room, mode), dtype=np.int64).reshape(-1, 2)


def _whole_lines(ends: np.ndarray, room: int, mode: str) -> List[Tuple[int, int]]:
    texts: List[Tuple[int, int]] = []
    open_at = -1  # begin of the text that may still take lines
    begin = 0
    for end in ends.tolist():
        last = end - 1  # without EOS
        if last == begin:  # an empty line
            open_at = -1 if mode == "complete_doc" else open_at
        elif mode != "eos" and open_at >= 0 and last - open_at <= room:
            texts[-1] = (open_at, last)
        else:
            texts += [(at, min(at + room, last)) for at in range(begin, last, room)]
            open_at = begin if last - begin <= room else -1
        begin = end
    return texts


class TextDataset(CompleteBatches, FairseqDataset):
    """Texts as BOS tokens EOS; inside a block the ends of its lines stay where they were.

    Args:
        lines: binarised lines, each ending in EOS.
        sizes: their lengths.
        dictionary: gives BOS, EOS and padding.
        longest: most tokens of a text with BOS and EOS (``--tokens-per-sample``).
        mode: see :func:`cut`.
        seed: of the shuffling.
    """

    def __init__(
        self,
        lines: Any,
        sizes: Sequence[int],
        dictionary: Any,
        longest: int,
        mode: str,
        seed: int = 1,
    ) -> None:
        self.lines, self.dictionary, self.seed = lines, dictionary, seed
        self.spans = cut(sizes, longest - FRAME, mode)
        self.sizes = self.spans[:, 1] - self.spans[:, 0] + FRAME
        self.offsets = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
        pieces = int((np.asarray(sizes) - 1 > longest - FRAME).sum())
        if pieces and mode != "none":
            logger.info(f"{pieces} lines are longer than --tokens-per-sample {longest}: cut there")
        self.epoch = 1

    def __getitem__(self, index: int) -> Dict[str, Any]:
        begin, end = self.spans[index]
        first = int(np.searchsorted(self.offsets, begin, side="right")) - 1
        last = int(np.searchsorted(self.offsets, end, side="left"))
        joined = torch.cat([self.lines[i] for i in range(first, last)]).long()
        at = begin - self.offsets[first]
        words = joined[at : at + end - begin]
        bos, eos = self.dictionary.bos(), self.dictionary.eos()
        text = torch.cat([words.new_tensor([bos]), words, words.new_tensor([eos])])
        return {"id": index, "text": text}

    def __len__(self) -> int:
        return len(self.spans)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """A batch: ``id`` (B,), ``target`` and ``net_input.src_tokens`` int64 (B, T), counts."""
        if not samples:
            return {}
        texts = [sample["text"] for sample in samples]
        tokens = data_utils.collate_tokens(
            texts, self.dictionary.pad(), self.dictionary.eos(), left_pad=False
        )
        lengths = torch.tensor([len(text) for text in texts])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()) - FRAME * len(samples),
            "net_input": {"src_tokens": tokens, "src_lengths": lengths},
            "target": tokens,
        }

    def num_tokens(self, index: int) -> int:
        """Tokens of a text with BOS and EOS."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Sequence[int]) -> np.ndarray:
        """The same for many."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """The same, for fairseq's filter of over-long samples."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Texts by length, those of equal length in an order drawn anew each epoch."""
        with data_utils.numpy_seed(self.seed, self.epoch):
            shuffled = np.random.permutation(len(self))
        return shuffled[np.argsort(self.sizes[shuffled], kind="mergesort")]

    def set_epoch(self, epoch: int) -> None:
        """fairseq tells the number of the epoch."""
        self.epoch = epoch

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Batches differ between epochs."""
        return False
