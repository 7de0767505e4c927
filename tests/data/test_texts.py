"""Sentences and blocks cut from a binarised corpus."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.data.texts import BREAK_MODES, TextDataset, cut

EOS = 2


class Lines(list):
    """Binarised lines as fairseq's indexed datasets give them."""

    @property
    def sizes(self):
        return np.array([len(line) for line in self])


def lines(*lengths):
    """Lines whose tokens count up from 10, each ending in EOS."""
    made, at = Lines(), 10
    for length in lengths:
        made.append(torch.tensor([*range(at, at + length), EOS], dtype=torch.int32))
        at += length
    return made


def texts(data, longest, mode):
    dataset = TextDataset(data, data.sizes, Dictionary(), longest, mode)
    found = []
    for i in range(len(dataset)):
        text = dataset[i]["text"].tolist()
        assert text[0] == 0 and text[-1] == EOS and len(text) == dataset.sizes[i] <= longest
        found.append(text[1:-1])
    return found


def test_one_line_a_text():
    assert texts(lines(2, 3, 1), 8, "eos") == [[10, 11], [12, 13, 14], [15]]


def test_long_lines_are_cut_and_empty_ones_left_out():
    assert texts(lines(5, 0, 1), 4, "eos") == [[10, 11], [12, 13], [14], [15]]


def test_blocks_ignore_where_lines_end():
    assert texts(lines(2, 3), 5, "none") == [[10, 11, EOS], [12, 13, 14]]
    assert texts(lines(2, 3), 4, "none") == [[10, 11], [EOS, 12], [13, 14]]


def test_complete_takes_whole_lines():
    assert texts(lines(2, 3, 1, 4), 8, "complete") == [
        [10, 11, EOS, 12, 13, 14],
        [15, EOS, 16, 17, 18, 19],
    ]


def test_documents_are_kept_apart():
    data = lines(1, 1, 0, 1)
    assert texts(data, 20, "complete_doc") == [[10, EOS, 11], [12]]
    assert texts(data, 20, "complete") == [[10, EOS, 11, EOS, EOS, 12]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.integers(3, 12),
    st.sampled_from(BREAK_MODES),
)
def test_no_word_is_lost_and_none_twice(lengths, longest, mode):
    found = [t for text in texts(lines(*lengths), longest, mode) for t in text if t != EOS]
    assert found == list(range(10, 10 + sum(lengths)))


def test_bad_options():
    with pytest.raises(ValueError, match="--sample-break-mode must be one of"):
        cut([3], 4, "half")
    with pytest.raises(ValueError, match="--tokens-per-sample 2 leaves no room"):
        cut([3], 0, "eos")


def test_batches_hold_every_text_once():
    data = lines(*([3] * 21))
    dataset = TextDataset(data, data.sizes, Dictionary(), 8, "eos")
    batches = dataset.batch_by_size(
        dataset.ordered_indices(), max_tokens=40, required_batch_size_multiple=8
    )
    assert sorted(int(i) for batch in batches for i in batch) == list(range(21))


def test_batches_are_drawn_anew_each_epoch_and_alike_after_a_restart():
    data = lines(*([3] * 30))
    first, second = (TextDataset(data, data.sizes, Dictionary(), 8, "eos") for _ in range(2))
    orders = []
    for epoch in (1, 2):
        for dataset in (first, second):
            dataset.set_epoch(epoch)
        orders.append(first.ordered_indices().tolist())
        assert orders[-1] == second.ordered_indices().tolist()
    assert orders[0] != orders[1]
    assert not first.can_reuse_epoch_itr_across_epochs


def test_collating_pads_on_the_right_and_counts_words():
    data = lines(1, 3)
    dataset = TextDataset(data, data.sizes, Dictionary(), 8, "eos")
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["target"].tolist() == [[0, 10, 2, 1, 1], [0, 11, 12, 13, 2]]
    assert batch["net_input"]["src_tokens"] is batch["target"]
    assert batch["id"].tolist() == [0, 1]
    assert (batch["ntokens"], batch["nsentences"]) == (4, 2)
    assert dataset.collater([]) == {}
