"""Pairs made from texts alone, to pretrain a translation model (spec 3.2).

``span`` and ``long-span``: the source is a text in which each hidden span is one mask symbol, the
target is the hidden spans in their order, with EOS between them as the frame has it: never noised,
never predicted. ``prefix-lm``: the source is the beginning of a text, the target its rest.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from fairseq.data.language_pair_dataset import collate
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.data.batching import CompleteBatches
from fairseq_gmlm.data.texts import FRAME
from fairseq_gmlm.masking_rules import span_positions

_SPLIT = 1  # stream of the counter generator
SHORTEST = 2  # words: one to show and one to predict


@dataclass(frozen=True)
class Objective:
    """What is hidden of a text.

    Attributes:
        mean: mean length of a span, in tokens; None: everything behind a uniformly drawn place.
        density: share of the tokens in spans.
    """

    mean: Optional[float]
    density: float = 0.0

    def __post_init__(self) -> None:
        if self.mean is not None and self.mean < 1:
            raise ValueError(f"--span-mean must be at least 1, not {self.mean}")
        if self.mean is not None and not 0 < self.density < 1:
            raise ValueError(f"--span-density must be in (0, 1), not {self.density}")

    def counts(self, words: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Hidden tokens and spans of texts of so many words (both int64); spans only."""
        hidden = np.clip(np.floor(words * self.density + 0.5 + 1e-9), 1, words - 1)
        spans = np.maximum(1, np.rint(hidden / self.mean + 1e-9))
        return hidden.astype(np.int64), np.minimum(spans, words - hidden + 1).astype(np.int64)


OBJECTIVES: Dict[str, Objective] = {
    "span": Objective(3.0, 0.15),
    "long-span": Objective(32.0, 0.5),
    "prefix-lm": Objective(None),
}


def split_spans(
    words: Tensor, objective: Objective, rng: CounterRNG, mask: int, eos: int
) -> Tuple[Tensor, Tensor]:
    """Source with masks, and hidden spans joined by EOS; from int64 (n,), n >= 2.

    Example: ``a b c d e f`` with ``b`` and ``d e`` hidden gives ``a <mask> c <mask> f`` and
    ``b </s> d e``.
    """
    hidden_count, _ = objective.counts(np.array([len(words)]))
    everything = torch.ones(1, len(words), dtype=torch.bool)
    hidden = span_positions(everything, torch.from_numpy(hidden_count), objective.mean, rng)[0]
    before = torch.cat([hidden.new_zeros(1), hidden[:-1]])
    first = hidden & ~before
    source = torch.where(first, mask, words)[~hidden | first]
    parts: List[int] = []
    for token, begins in zip(words[hidden].tolist(), first[hidden].tolist()):
        if begins and parts:
            parts.append(eos)
        parts.append(token)
    return source, torch.tensor(parts, dtype=torch.long)


def prefix_lengths(words: Tensor, rng: CounterRNG) -> Tensor:
    """Words of each text that the source shows, uniform over 1 .. n - 1; int64 like ``words``."""
    return 1 + (rng.per_row(_SPLIT) * (words - 1)).long().minimum(words - 2)


class PretrainingDataset(CompleteBatches, FairseqDataset):
    """Pairs drawn anew from the texts in every epoch, the same after any restart.

    Args:
        texts: a :class:`~fairseq_gmlm.data.texts.TextDataset`.
        objective: what is hidden.
        dictionary: of the texts, with the mask symbol ``mask``.
        mask: its id.
        seed: of the draws.
        left_pad_source: as fairseq's option.
    """

    def __init__(
        self,
        texts: Any,
        objective: Objective,
        dictionary: Any,
        mask: int,
        seed: int = 1,
        left_pad_source: bool = True,
    ) -> None:
        self.texts, self.objective, self.dictionary = texts, objective, dictionary
        self.mask, self.seed, self.left_pad_source = mask, seed, left_pad_source
        words = np.asarray(texts.sizes) - FRAME
        self.usable = np.flatnonzero(words >= SHORTEST)
        self.words = words[self.usable]
        self.set_epoch(1)

    def _rng(self, indices: Tensor) -> CounterRNG:
        return CounterRNG((self.seed, self.epoch), indices)

    def set_epoch(self, epoch: int) -> None:
        """fairseq tells the number of the epoch (always 1 for validation)."""
        self.epoch = epoch
        self.texts.set_epoch(epoch)
        if self.objective.mean is None:
            words = torch.from_numpy(self.words)
            shown = prefix_lengths(words, self._rng(torch.arange(len(words)))).numpy()
            sizes = np.stack([shown + 1, self.words - shown + FRAME], 1)
        else:
            hidden, spans = self.objective.counts(self.words)
            source = self.words - hidden + spans + 1
            sizes = np.stack([source, hidden + spans - 1 + FRAME], 1)
        # Ends of lines within a block are left out later, so these are upper bounds.
        self.sizes = sizes

    def __getitem__(self, index: int) -> Dict[str, Any]:
        text = self.texts[int(self.usable[index])]["text"][1:-1]
        eos, bos = self.dictionary.eos(), self.dictionary.bos()
        words = text[text != eos]
        rng = self._rng(torch.tensor([index]))
        if len(words) < SHORTEST:  # a block of little but ends of lines
            source, target = words, words
        elif self.objective.mean is None:
            shown = int(prefix_lengths(torch.tensor([len(words)]), rng))
            source, target = words[:shown], words[shown:]
        else:
            source, target = split_spans(words, self.objective, rng, self.mask, eos)
        frame = words.new_tensor([bos]), words.new_tensor([eos])
        return {
            "id": index,
            "source": torch.cat([source, frame[1]]),
            "target": torch.cat([frame[0], target, frame[1]]),
        }

    def __len__(self) -> int:
        return len(self.usable)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """fairseq's batch of pairs."""
        return collate(
            samples,
            pad_idx=self.dictionary.pad(),
            eos_idx=self.dictionary.eos(),
            left_pad_source=self.left_pad_source,
            left_pad_target=False,
            input_feeding=False,
        )

    def num_tokens(self, index: int) -> int:
        """Longer side of a pair, in tokens."""
        return int(self.sizes[index].max())

    def num_tokens_vec(self, indices: Sequence[int]) -> np.ndarray:
        """The same for many."""
        return self.sizes[indices].max(1)

    def size(self, index: int) -> Tuple[int, int]:
        """Source and target, in tokens, for fairseq's filter of over-long samples."""
        return int(self.sizes[index][0]), int(self.sizes[index][1])

    def ordered_indices(self) -> np.ndarray:
        """Pairs by length, those of equal length in an order drawn anew each epoch."""
        with data_utils.numpy_seed(self.seed, self.epoch):
            shuffled = np.random.permutation(len(self))
        return shuffled[np.argsort(self.sizes[shuffled].max(1), kind="mergesort")]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Pairs differ between epochs."""
        return False
