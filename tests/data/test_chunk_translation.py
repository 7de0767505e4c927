"""fairseq_gmlm.data.chunk_translation: batching and order, with a stand-in for the engine."""

import random

import pytest

from fairseq_gmlm.data.chunk_translation import batches_by_length, translate_chunk
from fairseq_gmlm.data.chunks import Outcome


class Backwards:
    """Translates by reversing, and notes what it was given."""

    def __init__(self):
        self.batches = []

    def translate(self, sources):
        self.batches.append([len(source) for source in sources])
        return [list(reversed(source)) for source in sources]


@pytest.mark.parametrize(
    ("lengths", "tokens", "sentences", "batches"),
    [
        ([5, 1, 3], None, None, [[1, 2, 0]]),
        ([5, 1, 3], None, 2, [[1, 2], [0]]),
        ([5, 1, 3], 6, None, [[1, 2], [0]]),
        ([9, 9], 6, None, [[0], [1]]),
        ([2, 2, 2], 4, 5, [[0, 1], [2]]),
        ([], 4, 5, []),
    ],
)
def test_batches_by_length(lengths, tokens, sentences, batches):
    assert list(batches_by_length(lengths, tokens, sentences)) == batches


def test_order_is_kept_whatever_the_batches():
    rng = random.Random(1)
    sources = [[rng.randrange(4, 99) for _ in range(rng.randrange(1, 20))] for _ in range(200)]
    engine = Backwards()
    chunk = translate_chunk(sources, engine, [0, 1, 2, 3], 100, 64, None)
    assert chunk.targets == [list(reversed(source)) for source in sources]
    assert chunk.outcomes == [Outcome.TRANSLATED] * 200
    flat = [length for batch in engine.batches for length in batch]
    assert flat == sorted(flat)
    assert all(len(batch) * (max(batch) + 1) <= 64 for batch in engine.batches)


def test_what_cannot_be_translated_keeps_its_place():
    sources = [[5, 6], [], [7] * 10, [1, 2], [8]]
    chunk = translate_chunk(sources, Backwards(), [0, 1, 2, 3], 6, None, None)
    assert chunk.targets == [[6, 5], [], [], [], [8]]
    assert chunk.outcomes == [
        Outcome.TRANSLATED,
        Outcome.EMPTY_SOURCE,
        Outcome.SOURCE_TOO_LONG,
        Outcome.EMPTY_OUTPUT,
        Outcome.TRANSLATED,
    ]


def test_forbidden_symbols_are_taken_out():
    chunk = translate_chunk([[5, 1, 6, 3]], Backwards(), [0, 1, 2, 3], 100, None, None)
    assert chunk.targets == [[6, 5]]
