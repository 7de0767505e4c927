"""Stutter and repeated n-grams (spec of the paper's code: a token equal to its left neighbour)."""

import itertools
from typing import Collection, List, NamedTuple, Sequence

Tokens = Sequence[int]


class Count(NamedTuple):
    """Cases found among those looked at, in one sentence."""

    found: int
    total: int


def stutter(tokens: Tokens, masks: Collection[int] = ()) -> Count:
    """Tokens that equal their left neighbour, among all tokens that are no mask.

    >>> stutter([7, 7, 7, 8])
    Count(found=2, total=4)
    >>> stutter([7, 9, 9, 7], masks={9})
    Count(found=0, total=2)
    """
    real = [token not in masks for token in tokens]
    pairs = zip(tokens, tokens[1:], real)
    return Count(sum(a == b and here for a, b, here in pairs), sum(real))


def repeated_ngrams(tokens: Tokens, n: int) -> Count:
    """n-grams that occurred earlier in the sentence, anywhere, among all its n-grams.

    >>> repeated_ngrams([5, 6, 5, 6, 5], 2)
    Count(found=2, total=4)
    """
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return Count(len(grams) - len(set(grams)), len(grams))


def bigrams(tokens: Tokens) -> List[tuple]:
    """Neighbours.

    >>> bigrams([1, 2, 3])
    [(1, 2), (2, 3)]
    """
    return list(itertools.pairwise(tokens))


class Novelty(NamedTuple):
    """Bigrams of one sentence against a list of translations.

    Attributes:
        absent: bigrams in none of the list's.
        mixed: those among them whose two tokens both occur in the list, though never together:
            what two translations mixed up look like.
        total: all bigrams.
    """

    absent: int
    mixed: int
    total: int


def novel_bigrams(
    tokens: Tokens, translations: Sequence[Tokens], masks: Collection[int] = ()
) -> Novelty:
    """Count bigrams that none of the ``translations`` has; those with a mask do not count.

    >>> novel_bigrams([1, 4, 9], [[1, 2], [3, 4]])
    Novelty(absent=2, mixed=1, total=2)
    """
    known = {pair for other in translations for pair in bigrams(other)}
    words = {token for other in translations for token in other}
    pairs = [(a, b) for a, b in bigrams(tokens) if a not in masks and b not in masks]
    absent = [pair for pair in pairs if pair not in known]
    mixed = sum(a in words and b in words for a, b in absent)
    return Novelty(len(absent), mixed, len(pairs))
