"""Symbols that the plugin adds, and which ids may stand where."""

import pytest
import torch
from fairseq.data import Dictionary
from helpers import models as make

from fairseq_gmlm.vocabulary import MASK, RANGE_MASK, Vocabulary, add_symbols, fingerprint


def prepared(mask_range: int = 0, padded: bool = False) -> Dictionary:
    """A dictionary with the plugin's symbols."""
    found = make.dictionary(5)
    if padded:
        found.pad_to_multiple_(8)
    add_symbols(found, mask_range)
    return found


def test_symbols_are_added_once() -> None:
    dictionary = prepared(3)
    size = len(dictionary)
    add_symbols(dictionary, 3)
    assert len(dictionary) == size == 4 + 5 + 1 + 3
    assert dictionary.symbols[-4:] == [MASK, *(RANGE_MASK.format(i) for i in range(3))]


def test_no_text_can_contain_the_mask() -> None:
    dictionary = prepared(2)
    own = {dictionary.index(MASK), dictionary.index(RANGE_MASK.format(1))}
    for text in (MASK, f"w1 {MASK} w2", RANGE_MASK.format(1), "<mask>", "<gmlm", "mask>"):
        ids = set(dictionary.encode_line(text, add_if_not_exist=False).tolist())
        assert not ids & own, text


def test_ids_by_hand() -> None:
    dictionary = prepared(2)
    vocabulary = Vocabulary.of(dictionary, 2)
    assert (vocabulary.bos, vocabulary.pad, vocabulary.eos, vocabulary.unk) == (0, 1, 2, 3)
    assert vocabulary.mask == 9
    assert vocabulary.mask_ids.tolist() == [10, 11]
    assert vocabulary.banned.tolist() == [0, 1, 2, 3, 9, 10, 11]
    assert vocabulary.ordinary.tolist() == [4, 5, 6, 7, 8]
    assert vocabulary.specials() == [0, 1, 2, 9, 10, 11]
    assert vocabulary.size == len(dictionary) == 12


def test_one_mask_for_all_without_a_range() -> None:
    vocabulary = Vocabulary.of(prepared())
    assert vocabulary.mask_ids.tolist() == [vocabulary.mask]


def test_unknown_is_predicted_only_if_allowed_and_never_drawn() -> None:
    vocabulary = Vocabulary.of(prepared())
    allowed = vocabulary.without_unk(vocabulary.banned)
    assert vocabulary.unk not in allowed.tolist()
    assert {*allowed.tolist(), vocabulary.unk} == set(vocabulary.banned.tolist())
    assert vocabulary.unk not in vocabulary.ordinary.tolist()


def test_rows_that_only_round_the_size_up_are_no_words() -> None:
    dictionary = prepared(padded=True)
    vocabulary = Vocabulary.of(dictionary)
    fillers = [i for i, s in enumerate(dictionary.symbols) if s.startswith("madeupword")]
    assert len(fillers) == 7
    assert set(fillers) <= set(vocabulary.banned.tolist())
    assert not set(fillers) & set(vocabulary.ordinary.tolist())


def test_a_real_word_that_looks_like_a_filler_stays_a_word() -> None:
    dictionary = make.dictionary(2)
    index = dictionary.add_symbol("madeupword0000", n=3)
    add_symbols(dictionary)
    assert index in Vocabulary.of(dictionary).ordinary.tolist()


@pytest.mark.parametrize("mask_range", [0, 4])
def test_banned_and_ordinary_divide_the_vocabulary(mask_range: int) -> None:
    vocabulary = Vocabulary.of(prepared(mask_range, padded=True), mask_range)
    both = torch.cat([vocabulary.banned, vocabulary.ordinary]).sort().values
    assert both.tolist() == list(range(vocabulary.size))


def test_stock_cmlm_bans_nothing_and_masks_with_unk() -> None:
    dictionary = make.dictionary(5)
    vocabulary = Vocabulary.stock_cmlm(dictionary)
    assert vocabulary.mask == vocabulary.unk == 3
    assert vocabulary.mask_ids.tolist() == [3]
    assert vocabulary.banned.numel() == 0
    assert vocabulary.ordinary.tolist() == [4, 5, 6, 7, 8]


def test_fingerprints_depend_on_symbols_and_their_order() -> None:
    one, same, swapped, other = (make.dictionary(6) for _ in range(4))
    swapped.symbols[4], swapped.symbols[5] = swapped.symbols[5], swapped.symbols[4]
    other.symbols[4] = "x"
    prints = [fingerprint(d) for d in (one, same, swapped, other)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
    assert all(0 <= p < 1 << 63 for p in prints)


def test_fingerprints_take_undecodable_symbols() -> None:
    dictionary = make.dictionary(1)
    dictionary.add_symbol(b"\xff".decode("utf-8", "surrogateescape"))
    assert fingerprint(dictionary) != fingerprint(make.dictionary(1))
