"""Texts to be scored, from lines that a user gives or from a data-bin."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_gmlm.data.codec import UnknownWord, encode_ids
from fairseq_gmlm.data.lines import read_lines
from fairseq_gmlm.errors import UserError
from fairseq_gmlm.scoring.packing import Text
from fairseq_gmlm.words import WordTable, guess_marker, word_table


class Fault(NamedTuple):
    """A text that cannot be scored: where it stands, and what is wrong with it."""

    number: int
    message: str


class Item(NamedTuple):
    """A text that can be scored.

    Attributes:
        number: of the line or text, from 1.
        text: its tokens.
        words: how many words they are.
        source: int64 (S,), for translation models.
    """

    number: int
    text: Text
    words: int
    source: Optional[Tensor] = None


@dataclass
class Reader:
    """Makes items; faults are returned in their places.

    Attributes:
        dictionary: of the texts.
        vocabulary: which ids are special.
        longest: most tokens of a text, without BOS and EOS.
        table: where words begin.
        keep_unknown: words that are not in the dictionary count as the unknown symbol.
    """

    dictionary: Any
    vocabulary: Any
    longest: int
    table: WordTable
    keep_unknown: bool = False

    @classmethod
    def of(cls, dictionary: Any, vocabulary: Any, longest: int, keep_unknown: bool) -> "Reader":
        """With the dictionary's own subword marker."""
        marker = guess_marker(dictionary.symbols)
        # GPT-2 dictionaries of numbers carry no marker: their tokens count as words.
        table = word_table(dictionary.symbols, marker)
        return cls(dictionary, vocabulary, longest, table, keep_unknown)

    def _item(self, number: int, tokens: Tensor, source: Optional[Tensor] = None) -> Item:
        free = tokens.ne(self.vocabulary.eos)
        starts = self.table.starts(tokens[None])[0]
        before = torch.cat([free.new_zeros(1), free])[: len(free)]
        starts = (starts | ~before) & free
        return Item(number, Text(tokens, free), int(starts.sum()), source)

    def lines(self, path: str, codec: Any, sources: Optional[List[Tensor]] = None) -> Iterator[Any]:
        """Items and faults of a file, or of standard input for ``-``.

        Raises:
            UserError: a file that is missing or not UTF-8, or with another number of lines than
                ``sources``.
        """
        lines = sys.stdin if path == "-" else read_lines(_existing(path))
        special = set(range(self.dictionary.nspecial)) | set(self.vocabulary.specials())
        number = 0
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\r\n")
            try:
                ids, places = encode_ids(codec, line, self.dictionary, special, self.keep_unknown)
            except UnknownWord as error:
                yield Fault(number, f"line {number}, column {error.at + 1}: {error}")
                continue
            if len(ids) > self.longest:
                column = places[self.longest] + 1
                yield Fault(
                    number,
                    f"line {number}, column {column}: here begins token {self.longest + 1} of "
                    f"{len(ids)}, and the model takes {self.longest}; shorten the line",
                )
                continue
            source = None
            if sources is not None:
                if number > len(sources):
                    break
                source = sources[number - 1]
            yield self._item(number, torch.tensor(ids, dtype=torch.long), source)
        if sources is not None and number != len(sources):
            raise UserError(
                f"--source has {len(sources)} lines and --input {path} another number; they must "
                "be aligned line by line"
            )

    def texts(self, dataset: Any) -> Iterator[Any]:
        """Items of a language model's split."""
        for index in range(len(dataset)):
            tokens = dataset[index]["text"][1:-1]
            yield self._checked(index + 1, tokens, None)

    def pairs(self, dataset: Any) -> Iterator[Any]:
        """Items of a translation model's split: targets given their sources."""
        for index in range(len(dataset)):
            pair = dataset[index]
            yield self._checked(index + 1, pair["target"][1:-1].long(), pair["source"].long())

    def _checked(self, number: int, tokens: Tensor, source: Optional[Tensor]) -> Any:
        if len(tokens) > self.longest:
            return Fault(
                number,
                f"text {number}: {len(tokens)} tokens, and the model takes {self.longest}",
            )
        return self._item(number, tokens, source)


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise UserError(f"no such file: {path}")
    return Path(path)


def read_sources(path: str, codec: Any, dictionary: Any, longest: int) -> List[Tensor]:
    """Sources int64 (S,) of a file, each ending in EOS; over-long ones are cut as in decoding."""
    special = set(range(dictionary.nspecial))
    sources = []
    for line in read_lines(_existing(path)):
        ids, _ = encode_ids(codec, line, dictionary, special, keep_unknown=True)
        sources.append(torch.tensor([*ids[: longest - 1], dictionary.eos()]))
    return sources
