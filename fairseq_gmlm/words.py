"""Where words begin in subword text: subword-nmt, sentencepiece and GPT-2's markers."""

from dataclasses import dataclass
from typing import Dict, Optional, Sequence

import torch
from torch import Tensor

MARKERS = ("none", "subword-nmt", "sentencepiece", "gpt2")
_CONTINUES = "@@"  # subword-nmt: the word goes on after this piece
_STARTS = {"sentencepiece": "\u2581", "gpt2": "\u0120"}  # the piece begins a word


@dataclass(frozen=True)
class WordTable:
    """What each symbol says about word boundaries.

    Attributes:
        begins: bool (V,), the symbol begins a word, unless its left neighbour goes on.
        goes_on: bool (V,), the next symbol belongs to the same word.
    """

    begins: Tensor
    goes_on: Tensor

    def starts(self, tokens: Tensor) -> Tensor:
        """Where a word begins, bool (B, T), from int64 (B, T)."""
        begins, goes_on = self.begins.to(tokens.device), self.goes_on.to(tokens.device)
        first = begins[tokens]
        first[:, 1:] &= ~goes_on[tokens[:, :-1]]
        return first


def guess_marker(symbols: Sequence[str]) -> str:
    """The marker that a dictionary's symbols carry; ``none`` if none does."""
    if any(s.endswith(_CONTINUES) and len(s) > len(_CONTINUES) for s in symbols):
        return "subword-nmt"
    for marker, sign in _STARTS.items():
        if any(s.startswith(sign) for s in symbols):
            return marker
    return "none"


def word_table(
    symbols: Sequence[str], marker: str, spelled: Optional[Dict[str, str]] = None
) -> WordTable:
    """The table of a dictionary.

    Args:
        symbols: its V symbols; those like ``<s>`` and ``madeupword0000`` are words of their own.
        marker: one of :data:`MARKERS`; with ``none`` every symbol is a word.
        spelled: GPT-2 as fairseq writes it has numbers for symbols; number -> piece.

    Raises:
        ValueError: unknown marker, or a GPT-2 dictionary of numbers without ``spelled``.
    """
    if marker not in MARKERS:
        raise ValueError(f"the subword marker must be one of {MARKERS}, not {marker!r}")
    special = [
        (s.startswith("<") and s.endswith(">")) or s.startswith("madeupword") for s in symbols
    ]
    begins = [True] * len(symbols)
    goes_on = [False] * len(symbols)
    if marker == "subword-nmt":
        goes_on = [s.endswith(_CONTINUES) and not odd for s, odd in zip(symbols, special)]
    elif marker in _STARTS:
        pieces = list(symbols)
        ordinary = [s for s, odd in zip(symbols, special) if not odd]
        if marker == "gpt2" and ordinary and all(s.isdigit() for s in ordinary):
            if spelled is None:
                raise ValueError(
                    "this dictionary has GPT-2's numbers for symbols; give the encoder.json that "
                    "spells them: --whole-words-json FILE"
                )
            pieces = [spelled.get(s, s) for s in symbols]
        begins = [p.startswith(_STARTS[marker]) or odd for p, odd in zip(pieces, special)]
    return WordTable(torch.tensor(begins), torch.tensor(goes_on))
