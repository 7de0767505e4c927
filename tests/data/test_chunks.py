"""fairseq_gmlm.data.chunks: layout, round trip, damage."""

import pytest

from fairseq_gmlm.data.chunks import Chunk, ChunkStore, Outcome
from fairseq_gmlm.errors import UserError


@pytest.fixture
def store(tmp_path):
    return ChunkStore(tmp_path, sentences=7, size=3, fingerprint="abc")


def chunk(size):
    outcomes = [Outcome.TRANSLATED, Outcome.EMPTY_OUTPUT, Outcome.TRANSLATED][:size]
    return Chunk([[4, 5], [], [6]][:size], outcomes, 1.5)


def test_layout(store):
    assert len(store) == 3
    assert [list(store.range_of(i)) for i in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [store.of_shard(k, 2) for k in range(2)] == [[0, 2], [1]]


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_shards_cover_every_chunk_once(store, shards):
    chunks = [index for k in range(shards) for index in store.of_shard(k, shards)]
    assert sorted(chunks) == [0, 1, 2]


def test_round_trip(store):
    for index, size in enumerate((3, 3, 1)):
        store.write(index, chunk(size))
    assert list(store.read_all()) == [chunk(3), chunk(3), chunk(1)]
    assert store.missing() == []


def test_missing_chunks_are_counted(store):
    store.write(1, chunk(3))
    assert store.missing() == [0, 2]
    with pytest.raises(UserError, match=r"2 of 3 chunks are missing \(0, 2\)"):
        next(store.read_all())


def test_a_chunk_of_another_distillation_is_refused(store, tmp_path):
    ChunkStore(tmp_path, 7, 3, "other").write(0, chunk(3))
    with pytest.raises(UserError, match="belongs to another distillation"):
        store.read(0)


def test_a_damaged_chunk_is_named(store):
    store.write(0, chunk(3))
    path = store.path_of(0)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"chunk-000000\.npz: damaged"):
        store.read(0)


def test_a_chunk_with_too_few_sentences_is_named(store):
    store.write(0, chunk(2))
    with pytest.raises(UserError, match="holds 2 sentences instead of 3"):
        store.read(0)
