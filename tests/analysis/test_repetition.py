"""Counts by hand, and the rate of the compared table."""

import doctest

import pytest
import torch

from fairseq_gmlm.analysis import repetition
from fairseq_gmlm.analysis.repetition import novel_bigrams, repeated_ngrams, stutter
from fairseq_gmlm.comparison.quality import stutter_rate
from fairseq_gmlm.decoding.remasking import stutter as stutter_of_chains


def test_examples() -> None:
    assert doctest.testmod(repetition).failed == 0


def test_agrees_with_the_chain_and_with_the_table() -> None:
    rows = torch.randint(0, 3, (50, 9), generator=torch.Generator().manual_seed(0))
    counts = [stutter(row.tolist()) for row in rows]
    everywhere = torch.ones_like(rows, dtype=torch.bool)
    assert [c.found for c in counts] == stutter_of_chains(rows, everywhere).sum(1).tolist()
    rate = sum(c.found for c in counts) / sum(c.total for c in counts)
    assert rate == stutter_rate([list(map(str, row.tolist())) for row in rows])


@pytest.mark.parametrize(
    ("n", "expected"), [(1, (3, 6)), (2, (2, 5)), (3, (1, 4)), (4, (0, 3)), (7, (0, 0))]
)
def test_repeated_ngrams(n: int, expected: tuple) -> None:
    assert repeated_ngrams([1, 2, 3, 1, 2, 3], n) == expected


def test_bigrams_beside_a_list() -> None:
    known = [[1, 2, 3], [4, 5]]
    # (3, 4) has known tokens that never stand together; (4, 6) has a token nobody knows.
    assert novel_bigrams([2, 3, 4, 6], known) == (2, 1, 3)
    assert novel_bigrams([2, 9, 4, 5], known, masks={9}) == (0, 0, 1)
    assert novel_bigrams([], known) == (0, 0, 0)
    assert novel_bigrams([1, 2], []) == (1, 0, 1)
