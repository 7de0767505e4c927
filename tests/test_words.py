"""Where words begin, and masking them whole."""

import pytest
import torch

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.masking import MaskPrior, columns, pick_positions, pick_words
from fairseq_gmlm.words import guess_marker, word_table

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def starts(symbols, marker, text, **options):
    symbols = SPECIAL + symbols
    tokens = torch.tensor([[symbols.index(piece) for piece in text.split()]])
    return word_table(symbols, marker, **options).starts(tokens)[0].long().tolist()


def test_subword_nmt_marks_what_goes_on():
    text = "<s> un@@ believ@@ able cat </s>"
    symbols = ["un@@", "believ@@", "able", "cat"]
    assert starts(symbols, "subword-nmt", text) == [1, 1, 0, 0, 1, 1]
    assert guess_marker(SPECIAL + symbols) == "subword-nmt"


def test_sentencepiece_and_gpt2_mark_what_begins():
    for marker, sign in (("sentencepiece", "\u2581"), ("gpt2", "\u0120")):
        symbols = [f"{sign}un", "believ", f"{sign}cat"]
        text = f"<s> {sign}un believ {sign}cat </s>"
        assert starts(symbols, marker, text) == [1, 1, 0, 1, 1]
        assert guess_marker(SPECIAL + symbols) == marker


def test_gpt2_as_fairseq_writes_it_needs_the_spelling():
    spelled = {"318": "\u0120is", "1234": "nt"}
    symbols = ["318", "1234", "madeupword0000"]
    assert starts(symbols, "gpt2", "318 1234 318 madeupword0000", spelled=spelled) == [1, 0, 1, 1]
    with pytest.raises(ValueError, match="--whole-words-json"):
        word_table(SPECIAL + symbols[:2], "gpt2")


def test_without_a_marker_every_token_is_a_word():
    assert starts(["a", "b"], "none", "a b a") == [1, 1, 1]
    assert guess_marker([*SPECIAL, "a", "@@", "b"]) == "none"
    with pytest.raises(ValueError, match="subword marker must be one of"):
        word_table(SPECIAL, "bert")


def words_batch():
    # BOS, words of 1, 3, 2 and 1 tokens, EOS; then a shorter row, padded on the left.
    begins = [[1, 1, 1, 0, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 0, 0, 1, 1]]
    maskable = [[0, 1, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1, 0]]
    return torch.tensor(begins).bool(), torch.tensor(maskable).bool()


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0])
def test_whole_words_are_masked_or_none_of_them(ratio):
    begins, maskable = words_batch()
    for seed in range(50):
        rng = CounterRNG(seed, torch.arange(2))
        picked = pick_words(maskable, begins, MaskPrior("fixed", ratio), rng, columns(maskable))
        assert not (picked & ~maskable).any()
        for row, words in ((0, [[1], [2, 3, 4], [5, 6], [7]]), (1, [[4, 5, 6], [7]])):
            hit = [picked[row, word].tolist() for word in words]
            assert all(len(set(values)) == 1 for values in hit)
            assert sum(values[0] for values in hit) == max(1, round(ratio * len(words)))


def test_words_are_picked_uniformly_whatever_their_length():
    begins, maskable = words_batch()
    rows = 40_000
    rng = CounterRNG(5, torch.arange(rows))
    many = maskable[:1].expand(rows, -1)
    prior = MaskPrior("fixed", 0.25)  # one word of four
    picked = pick_words(many, begins[:1].expand(rows, -1), prior, rng, columns(many))
    for first in (1, 2, 5, 7):
        share = picked[:, first].float().mean()
        assert abs(share - 0.25) < 4.5 * (0.25 * 0.75 / rows) ** 0.5


def test_a_text_that_begins_inside_a_word_has_a_first_word():
    begins = torch.tensor([[True, False, False, True]])
    maskable = torch.tensor([[False, True, True, True]])
    prior = MaskPrior("fixed", 1.0)
    picked = pick_words(maskable, begins, prior, CounterRNG(0, torch.arange(1)), columns(maskable))
    assert picked.tolist() == maskable.tolist()


def test_words_of_one_token_give_the_masks_of_tokens():
    maskable = torch.ones(3, 9, dtype=torch.bool)
    rng = CounterRNG(4, torch.arange(3))
    prior = MaskPrior()
    place = columns(maskable)
    assert torch.equal(
        pick_words(maskable, maskable, prior, rng, place),
        pick_positions(maskable, prior, rng, place),
    )


@pytest.mark.parametrize("number", [1, 3, 20])
def test_a_fixed_number_of_positions(number):
    maskable = torch.ones(200, 9, dtype=torch.bool)
    maskable[0, 2:] = False
    prior = MaskPrior("number", number=number, count="iid")  # the count is exact whatever is said
    picked = pick_positions(maskable, prior, CounterRNG(0, torch.arange(200)), columns(maskable))
    assert picked[0].sum() == min(2, number)
    assert (picked[1:].sum(1) == min(9, number)).all()


@pytest.mark.parametrize("bound", [1 / 6, 0.5])
def test_the_upper_bound_of_the_ratio(bound):
    rows, length = 30_000, 12
    maskable = torch.ones(rows, length, dtype=torch.bool)
    rng = CounterRNG(1, torch.arange(rows))
    picked = pick_positions(maskable, MaskPrior("uniform", bound), rng, columns(maskable))
    sizes = torch.bincount(picked.sum(1), minlength=length + 1)
    most = round(length * bound)
    assert sizes[0] == 0 and sizes[most + 1 :].sum() == 0
    share = sizes[1 : most + 1] / rows
    assert ((share - 1 / most).abs() < 4.5 * (1 / most / rows) ** 0.5).all()


def test_a_number_below_one_is_refused():
    with pytest.raises(ValueError, match="mask number must be at least 1, not 0"):
        MaskPrior("number", number=0)
