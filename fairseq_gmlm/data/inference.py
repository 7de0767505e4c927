"""Sources that come from a user's keyboard rather than from a prepared data-bin."""

import logging
from typing import Any, List, Optional

import numpy as np
import torch
from torch import Tensor

logger = logging.getLogger(__name__)


class SourceDataset(torch.utils.data.Dataset):
    """Binarised sources made safe for the model.

    A user's text may spell out a special symbol (``<pad>``, ``</s>``): in the middle of a sentence
    its id would mean padding or an end, so it becomes the unknown symbol. A source longer than the
    position table is cut, with a warning; every line still gives a line.

    Args:
        sources: int64 (S,) each, ending in EOS.
        dictionary: the source's.
        longest: most tokens, EOS included.
        bos: put BOS in front.
    """

    def __init__(
        self, sources: List[Tensor], dictionary: Any, longest: int, bos: bool = False
    ) -> None:
        specials = [dictionary.pad(), dictionary.bos(), dictionary.eos()]
        self.specials = torch.tensor(specials)
        self.unk, self.eos = dictionary.unk(), dictionary.eos()
        self.bos: Optional[int] = dictionary.bos() if bos else None
        self.longest = longest
        self.items = [self._safe(source) for source in sources]
        self.sizes = np.array([len(item) for item in self.items], dtype=np.int64)

    def _safe(self, source: Tensor) -> Tensor:
        source = source.long()
        words = source[:-1] if len(source) and source[-1] == self.eos else source
        words = words.masked_fill(torch.isin(words, self.specials), self.unk)
        room = self.longest - 1 - (self.bos is not None)
        if len(words) > room:
            logger.warning(
                f"a source of {len(words) + 1} tokens is longer than --max-source-positions "
                f"{self.longest}; its end is left out"
            )
            words = words[:room]
        parts = [words, words.new_tensor([self.eos])]
        if self.bos is not None:
            parts.insert(0, words.new_tensor([self.bos]))
        return torch.cat(parts)

    def __getitem__(self, index: int) -> Tensor:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)
