"""The symbols that this plugin adds to a dictionary, and which ids may stand where."""

import hashlib
from dataclasses import dataclass
from typing import Any, List

import torch
from torch import Tensor

# Text is split at spaces, so no input can ever contain a symbol with a space in it: a user's
# "<mask>" stays a word like any other.
MASK = "<gmlm mask>"
RANGE_MASK = "<gmlm mask {}>"


def add_symbols(dictionary: Any, mask_range: int = 0) -> None:
    """Append the mask and per-position masks to a fairseq dictionary (idempotent)."""
    for symbol in [MASK, *(RANGE_MASK.format(i) for i in range(mask_range))]:
        dictionary.add_symbol(symbol)


def fingerprint(dictionary: Any) -> int:
    """A 63-bit hash of the symbols in their order."""
    text = "\n".join(dictionary.symbols).encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Vocabulary:
    """Which ids mean what on the target side.

    Attributes:
        size: number of ids.
        pad, bos, eos, unk: fairseq's specials.
        mask: the mask symbol.
        mask_ids: int64 (1,) with ``mask``, or (M,) with one mask per position.
        banned: int64, ids that can never be predicted.
        ordinary: int64, all other ids: what random tokens are drawn from.
    """

    size: int
    pad: int
    bos: int
    eos: int
    unk: int
    mask: int
    mask_ids: Tensor
    banned: Tensor
    ordinary: Tensor

    @classmethod
    def of(cls, dictionary: Any, mask_range: int = 0) -> "Vocabulary":
        """From a dictionary that :func:`add_symbols` has prepared."""
        mask = dictionary.index(MASK)
        positions = [dictionary.index(RANGE_MASK.format(i)) for i in range(mask_range)]
        banned = {dictionary.pad(), dictionary.bos(), dictionary.eos(), dictionary.unk()}
        banned |= {mask, *positions}
        # Rows that fairseq adds to round the size up stand for no word.
        banned |= {
            i
            for i, (symbol, count) in enumerate(zip(dictionary.symbols, dictionary.count))
            if count == 0 and symbol.startswith("madeupword")
        }
        ordinary = [i for i in range(len(dictionary)) if i not in banned]
        return cls(
            size=len(dictionary),
            pad=dictionary.pad(),
            bos=dictionary.bos(),
            eos=dictionary.eos(),
            unk=dictionary.unk(),
            mask=mask,
            mask_ids=torch.tensor(positions or [mask]),
            banned=torch.tensor(sorted(banned)),
            ordinary=torch.tensor(ordinary),
        )

    @classmethod
    def stock_cmlm(cls, dictionary: Any) -> "Vocabulary":
        """As fairseq's CMLM has it: <unk> is the mask, and nothing of its own is banned."""
        everything = list(range(len(dictionary)))
        added = [dictionary.index(MASK)] if MASK in dictionary.indices else []
        return cls(
            size=len(dictionary),
            pad=dictionary.pad(),
            bos=dictionary.bos(),
            eos=dictionary.eos(),
            unk=dictionary.unk(),
            mask=dictionary.unk(),
            mask_ids=torch.tensor([dictionary.unk()]),
            banned=torch.tensor(added, dtype=torch.long),
            ordinary=torch.tensor([i for i in everything[dictionary.nspecial :] if i not in added]),
        )

    def without_unk(self, banned: Tensor) -> Tensor:
        """``banned``, on its device, with the unknown symbol taken out: it may be predicted."""
        return banned[banned != self.unk]

    def specials(self) -> List[int]:
        """Ids that are stripped from printed output."""
        return sorted({self.bos, self.eos, self.pad, self.mask, *self.mask_ids.tolist()})
