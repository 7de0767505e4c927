"""Sentences as words: subwords joined again, so that alignments do not depend on the segmentation."""

from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

from fairseq_gmlm.data import databin
from fairseq_gmlm.data.codec import Codec
from fairseq_gmlm.words import guess_marker, word_table


class WordJoiner:
    """Ids of a dictionary to words.

    Args:
        dictionary: fairseq's, with subword-nmt's, sentencepiece's or GPT-2's markers, or none.
    """

    def __init__(self, dictionary: Any) -> None:
        table = word_table(dictionary.symbols, guess_marker(dictionary.symbols))
        self.begins, self.goes_on = table.begins.tolist(), table.goes_on.tolist()
        surface = Codec().surface
        self.pieces = [surface(symbol) for symbol in dictionary.symbols]

    def __call__(self, ids: Iterable[int]) -> List[str]:
        """Words of one sentence."""
        words: List[str] = []
        joined = False
        for token in ids:
            if joined or (words and not self.begins[token]):
                words[-1] += self.pieces[token]
            else:
                words.append(self.pieces[token])
            joined = self.goes_on[token]
        return words


class Numbers:
    """Words to numbers from 1, in the order of their first appearance."""

    def __init__(self) -> None:
        self.ids: Dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, words: Sequence[str]) -> List[int]:
        """Numbers of words, new ones given to new words."""
        return [self.ids.setdefault(word, len(self.ids) + 1) for word in words]

    def look_up(self, words: Sequence[str]) -> List[int]:
        """Numbers of words; unknown ones share the number after the last."""
        return [self.ids.get(word, len(self.ids) + 1) for word in words]


class ParallelWords(NamedTuple):
    """Pairs of a training split.

    Attributes:
        pairs: (source, target) as numbers of words.
        source, target: the numbering.
        subwords: number of target tokens.
        total: pairs in the split, of which ``pairs`` are as many as were asked for.
    """

    pairs: List[tuple]
    source: Numbers
    target: Numbers
    subwords: int
    total: int


def read_words(folder: Path, most: int, split: str = "train") -> ParallelWords:
    """At most ``most`` pairs, spread evenly over a split, as words.

    Raises:
        UserError: the folder is no data-bin, or its two sides do not fit.
    """
    languages = databin.find_languages(folder)
    sides, numbers, subwords = [], [], 0
    for language in languages:
        prefix = databin.prefix_of(folder, split, languages, language)
        data, join = (
            databin.load_split(prefix),
            WordJoiner(databin.load_dictionary(folder, language)),
        )
        total = len(data)
        count = min(most, total)
        known, sentences, subwords = Numbers(), [], 0
        for place in range(count):
            ids = data[place * total // count][:-1].tolist()
            subwords += len(ids)
            sentences.append(known.add(join(ids)))
        sides.append(sentences)
        numbers.append(known)
    return ParallelWords(list(zip(*sides)), *numbers, subwords, total)
