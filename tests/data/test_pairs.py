"""Pairs as fairseq has them, with BOS before targets and no sentence left out."""

from typing import List, Optional

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from helpers import models as make

from fairseq_gmlm.data.batching import bucketed, with_left_out
from fairseq_gmlm.data.pairs import PairDataset


def stock(count: int, targets: bool = True, left: bool = True) -> LanguagePairDataset:
    """``count`` pairs of fairseq's own class."""
    lengths = [1 + i % 5 for i in range(count)]
    source = [torch.tensor(row) for row in make.sources(lengths)]
    target = [torch.tensor(row) for row in make.sources(lengths[::-1], seed=1)]
    dictionary = make.dictionary()
    return LanguagePairDataset(
        ListDataset(source, np.array([len(s) for s in source])),
        np.array([len(s) for s in source]),
        dictionary,
        ListDataset(target, np.array([len(t) for t in target])) if targets else None,
        np.array([len(t) for t in target]) if targets else None,
        dictionary if targets else None,
        left_pad_source=left,
        shuffle=False,
    )


@pytest.mark.parametrize("source_bos", [None, 0])
def test_targets_begin_with_bos_and_sources_if_asked(source_bos: Optional[int]) -> None:
    plain, pairs = stock(9), PairDataset.of(stock(9), source_bos)
    assert len(pairs) == 9
    for i in range(9):
        front = [] if source_bos is None else [source_bos]
        assert pairs[i]["target"].tolist() == [0, *plain[i]["target"].tolist()]
        assert pairs[i]["source"].tolist() == [*front, *plain[i]["source"].tolist()]
        expected = (len(pairs[i]["source"]), len(pairs[i]["target"]))
        assert tuple(pairs.sizes[i]) == pairs.size(i) == expected
        assert pairs.num_tokens(i) == max(expected)


def test_batches_hold_no_shifted_targets() -> None:
    pairs = PairDataset.of(stock(4), None)
    batch = pairs.collater([pairs[i] for i in range(4)])
    assert "prev_output_tokens" not in batch["net_input"]
    assert batch["target"][:, 0].tolist() == [0] * 4
    assert batch["ntokens"] == int(batch["target"].ne(1).sum())


def test_sources_alone() -> None:
    pairs = PairDataset.of(stock(3, targets=False), None)
    assert pairs.sizes.tolist() == [len(pairs[i]["source"]) for i in range(3)]
    assert "target" not in pairs.collater([pairs[i] for i in range(3)]) or (
        pairs.collater([pairs[i] for i in range(3)])["target"] is None
    )


@pytest.mark.parametrize("count", [1, 3, 8, 9, 17, 31])
@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("max_tokens", [None, 30])
def test_every_sentence_is_in_exactly_one_batch(
    count: int, multiple: int, max_tokens: Optional[int]
) -> None:
    pairs = PairDataset.of(stock(count), None)
    batches = pairs.batch_by_size(
        pairs.ordered_indices(),
        max_tokens=max_tokens,
        max_sentences=None if max_tokens else 8,
        required_batch_size_multiple=multiple,
    )
    flat: List[int] = [int(i) for batch in batches for i in batch]
    assert sorted(flat) == list(range(count))


def test_what_was_left_out_comes_last_and_in_order() -> None:
    length = {4: 3, 2: 9, 7: 9, 1: 2, 5: 4, 6: 2}.__getitem__
    batches = with_left_out([4, 2, 7, 1], [np.array([2, 7])], length)
    assert [b.tolist() for b in batches] == [[2, 7], [4, 1]]
    assert with_left_out([2, 7], [np.array([7, 2])], length)[0].tolist() == [7, 2]
    assert with_left_out([], [], length) == []


@pytest.mark.parametrize(
    ("max_tokens", "max_sentences", "expected"),
    [
        (None, None, [[4, 1, 5, 6]]),
        (None, 3, [[4, 1, 5], [6]]),
        (8, None, [[4, 1], [5, 6]]),
        (9, None, [[4, 1], [5, 6]]),
        (12, None, [[4, 1, 5], [6]]),
        (12, 2, [[4, 1], [5, 6]]),
        (1, None, [[4], [1], [5], [6]]),
    ],
)
def test_what_was_left_out_keeps_the_limits(
    max_tokens: Optional[int], max_sentences: Optional[int], expected: List[List[int]]
) -> None:
    length = {4: 3, 1: 2, 5: 4, 6: 2}.__getitem__
    found = with_left_out([4, 1, 5, 6], [], length, max_tokens, max_sentences)
    assert [b.tolist() for b in found] == expected


def test_bucket_widths_are_quantiles() -> None:
    assert bucketed(np.array([5, 1, 2, 9, 3, 4]), 2).tolist() == [9, 3, 3, 9, 3, 9]
    assert bucketed(np.array([5, 1, 2, 9, 3, 4]), 3).tolist() == [9, 2, 2, 9, 4, 4]
    assert bucketed(np.array([7, 7, 7]), 5).tolist() == [7, 7, 7]
    assert bucketed(np.array([3, 1, 2]), 99).tolist() == [3, 1, 2]
    assert bucketed(np.array([], dtype=int), 4).tolist() == []


@pytest.mark.parametrize("source_bos", [None, 0])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("targets", [True, False])
def test_buckets_give_few_shapes_and_keep_bos_next_to_the_words(
    source_bos: Optional[int], left: bool, targets: bool
) -> None:
    plain = stock(97, targets)
    pairs = PairDataset.of(stock(97, targets, left=left), source_bos, buckets=2)
    batches = pairs.batch_by_size(
        pairs.ordered_indices(), max_tokens=64, required_batch_size_multiple=8
    )
    assert sorted(int(i) for batch in batches for i in batch) == list(range(97))
    front = [] if source_bos is None else [source_bos]
    shapes = set()
    for batch in batches:
        sample = pairs.collater([pairs[int(i)] for i in batch])
        source, target = sample["net_input"]["src_tokens"], sample["target"]
        widest = max(source.size(1), target.size(1) if targets else 0)
        assert len(batch) * widest <= 64
        shapes.add((source.size(1), target.size(1) if targets else 0))
        # A batch is sorted by fairseq's collater, so ids say which row is which.
        for row, index in enumerate(sample["id"].tolist()):
            words = [*front, *plain[index]["source"].tolist()]
            padding = [1] * (source.size(1) - len(words))
            assert source[row].tolist() == (padding + words if left else words + padding)
            assert pairs.size(index)[0] <= source.size(1)
            if targets:
                words = [0, *plain[index]["target"].tolist()]
                assert target[row].tolist() == words + [1] * (target.size(1) - len(words))
                assert pairs.size(index) == tuple(pairs.sizes[index])
    assert 1 < len(shapes) <= 4


@pytest.mark.parametrize("max_tokens", [24, 30])
def test_what_was_left_out_fits_the_token_limit(max_tokens: int) -> None:
    """A batch that was dropped had been made within the limit; joining two might break it."""
    pairs = PairDataset.of(stock(23), None)
    for batch in pairs.batch_by_size(
        pairs.ordered_indices(), max_tokens=max_tokens, required_batch_size_multiple=8
    ):
        assert len(batch) * max(pairs.num_tokens(int(i)) for i in batch) <= max_tokens


def test_a_dataset_without_sentences_has_no_batches() -> None:
    pairs = PairDataset.of(stock(0), None)
    assert pairs.batch_by_size(pairs.ordered_indices(), max_sentences=8) == []
