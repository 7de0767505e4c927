"""Scores against laws that can be enumerated."""

from itertools import permutations
from math import exp, factorial, log

import pytest
import torch

from fairseq_gmlm.scoring import Frame, Scorer, Text, Total, perplexity
from fairseq_gmlm.scoring.packing import evaluate
from fairseq_gmlm.scoring.queries import all_subsets, one_hidden, ordered, random_subsets
from fairseq_gmlm.scoring.scorer import enumerate_orders

FRAME = Frame(bos=0, eos=2, pad=1, mask=3)
FIRST = 4


class Uneven:
    """Conditionals of no joint law: they depend on the position and on all that is visible.

    So orders differ, and every answer shows which question it was.
    """

    def __init__(self):
        self.passes, self.rows = 0, 0

    def __call__(self, tokens, asked, target, text):
        self.passes += 1
        self.rows += len(tokens)
        found = torch.zeros(tokens.shape, dtype=torch.double)
        for row, column in asked.nonzero().tolist():
            assert tokens[row, column] == FRAME.mask
            found[row, column] = self.value(
                tokens[row].tolist(), column, int(target[row, column]), int(text[row])
            )
        return found

    @staticmethod
    def value(tokens, column, gold, text=0):
        seen = [(i, t) for i, t in enumerate(tokens) if t != FRAME.mask and t != FRAME.pad]
        total = sum((i + 1) * t for i, t in seen)
        return -log(2 + (total * 7 + column * 5 + gold * 3 + text * 11) % 13)


def by_hand(words, order, text=0):
    """log p of a text in an order (positions from 0), token by token."""
    total, hidden = 0.0, set(range(len(words)))
    for position in order:
        shown = [FRAME.mask if i in hidden else w for i, w in enumerate(words)]
        tokens = [FRAME.bos, *shown, FRAME.eos]
        total += Uneven.value(tokens, position + 1, words[position], text)
        hidden.discard(position)
    return total


WORDS = [[4, 7, 5, 9], [6, 8], [5], [9, 9, 4, 6, 7]]
TEXTS = [Text.of(torch.tensor(words)) for words in WORDS]


@pytest.mark.parametrize("budget", [1, 16, 40, 10_000])
def test_orders_are_scored_token_by_token_whatever_the_packing(budget):
    scorer = Scorer(Uneven(), FRAME, budget)
    expected = [by_hand(w, range(len(w)), i) for i, w in enumerate(WORDS)]
    assert torch.allclose(scorer.left_to_right(TEXTS), torch.tensor(expected).double())
    expected = [by_hand(w, reversed(range(len(w))), i) for i, w in enumerate(WORDS)]
    assert torch.allclose(scorer.right_to_left(TEXTS), torch.tensor(expected).double())
    order = [2, 0, 3, 1]
    ranks = torch.tensor([order.index(i) for i in range(4)])
    found = scorer.in_order(TEXTS[:1], [ranks])
    assert abs(float(found[0]) - by_hand(WORDS[0], order)) < 1e-12


def test_many_questions_share_a_pass():
    model = Uneven()
    Scorer(model, FRAME, 10_000).left_to_right(TEXTS)
    assert (model.passes, model.rows) == (1, 12)
    model = Uneven()
    Scorer(model, FRAME, 14).left_to_right(TEXTS)  # 1 x 3 and 2 x 4; 2 x 6 twice; 2 x 7, 2, 1
    assert (model.passes, model.rows) == (6, 12)


def test_pseudo_likelihood_hides_one_at_a_time():
    found = Scorer(Uneven(), FRAME).pseudo(TEXTS[:1])
    expected = 0.0
    for i, word in enumerate(WORDS[0]):
        tokens = [FRAME.bos, *WORDS[0], FRAME.eos]
        tokens[i + 1] = FRAME.mask
        expected += Uneven.value(tokens, i + 1, word)
    assert abs(float(found[0]) - expected) < 1e-12


def test_positions_that_are_given_stay_visible_and_are_not_scored():
    free = torch.tensor([True, False, True, True])
    text = Text(torch.tensor(WORDS[0]), free)
    found = Scorer(Uneven(), FRAME).left_to_right([text])
    w, m = WORDS[0], FRAME.mask
    expected = Uneven.value([0, m, w[1], m, m, 2], 1, w[0])
    expected += Uneven.value([0, w[0], w[1], m, m, 2], 3, w[2])
    expected += Uneven.value([0, w[0], w[1], w[2], m, 2], 4, w[3])
    assert abs(float(found[0]) - expected) < 1e-12


def test_random_orders_are_orders_and_average_to_the_exact_mean():
    scorer = Scorer(Uneven(), FRAME, seed=7)
    words = WORDS[0]
    possible = {p: by_hand(words, p) for p in permutations(range(4))}
    found = scorer.random_orders(TEXTS[:1], 600)[:, 0]
    for value in found.tolist():
        assert min(abs(value - v) for v in possible.values()) < 1e-9
    mean = sum(possible.values()) / 24
    error = float(found.std()) / 600**0.5
    assert abs(float(found.mean()) - mean) < 4 * error
    assert torch.equal(found, scorer.random_orders(TEXTS[:1], 600)[:, 0])
    other = Scorer(Uneven(), FRAME, seed=8).random_orders(TEXTS[:1], 600)[:, 0]
    assert not torch.equal(found, other)


def test_a_text_gets_the_same_orders_whatever_it_is_scored_with():
    scorer = Scorer(Uneven(), FRAME)
    together = scorer.random_orders([TEXTS[0], TEXTS[3]], 5, keys=[10, 20])
    # The stand-in also looks at the number of a text; the second of two is number 1.
    alone = scorer.random_orders([TEXTS[0]], 5, keys=[10])
    assert torch.equal(together[:, :1], alone)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_exact_scores_are_those_of_all_orders(length):
    words = [4, 7, 5, 9, 6][:length]
    orders = [by_hand(words, order) for order in permutations(range(length))]
    found = Scorer(Uneven(), FRAME).exact([Text.of(torch.tensor(words))])[0]
    assert abs(found.mean - sum(orders) / factorial(length)) < 1e-9
    assert abs(found.mixture - log(sum(map(exp, orders)) / factorial(length))) < 1e-9
    assert found.mixture >= found.mean - 1e-12


def test_the_bound_estimates_the_exact_mean():
    scorer = Scorer(Uneven(), FRAME, seed=3)
    exact = scorer.exact(TEXTS)
    draws = scorer.bound(TEXTS, 3000)
    assert draws.shape == (3000, 4)
    error = draws.std(0) / 3000**0.5
    means = torch.tensor([e.mean for e in exact], dtype=torch.double)
    assert ((draws.mean(0) - means).abs() <= 4 * error + 1e-12).all()


def test_a_joint_law_has_one_score_in_every_order():
    generator = torch.Generator().manual_seed(0)
    law = torch.rand(3, 3, 3, generator=generator, dtype=torch.double)
    law /= law.sum()

    def exact(tokens, asked, target, text):
        found = torch.zeros(tokens.shape, dtype=torch.double)
        for row, column in asked.nonzero().tolist():
            seen = tokens[row, 1:-1].tolist()
            index = tuple(slice(None) if t == FRAME.mask else t - FIRST for t in seen)
            table = law[index]
            hidden = [i for i, t in enumerate(seen) if t == FRAME.mask]
            at = hidden.index(column - 1)
            others = [k for k in range(len(hidden)) if k != at]
            table = table.sum(others) if others else table
            found[row, column] = (table / table.sum())[target[row, column] - FIRST].log()
        return found

    words = torch.tensor([4, 6, 5])
    truth = float(law[0, 2, 1].log())
    scorer = Scorer(exact, FRAME)
    found = scorer.random_orders([Text.of(words)], 6)[:, 0].tolist()
    score = scorer.exact([Text.of(words)])[0]
    assert [abs(v - truth) < 1e-9 for v in [*found, score.mean, score.mixture]] == [True] * 8


def test_too_long_for_enumeration():
    with pytest.raises(ValueError, match="a text of 13 tokens is longer than 12"):
        Scorer(Uneven(), FRAME).exact([Text.of(torch.full((13,), 4))])


def test_empty_texts_score_nothing():
    scorer = Scorer(Uneven(), FRAME)
    empty = [Text.of(torch.zeros(0, dtype=torch.long))]
    assert scorer.left_to_right(empty).tolist() == [0.0]
    assert scorer.pseudo(empty).tolist() == [0.0]
    assert scorer.random_orders(empty, 2).tolist() == [[0.0], [0.0]]
    assert scorer.bound(empty, 2).tolist() == [[0.0], [0.0]]
    assert scorer.exact(empty)[0] == (0.0, 0.0)
    assert scorer.bound([], 3).shape == (3, 0)


def test_questions():
    ranks = torch.tensor([1, 0])
    assert ordered(ranks).hidden.tolist() == [[True, True], [True, False]]
    assert ordered(ranks).asked.tolist() == [[False, True], [True, False]]
    assert one_hidden(2).hidden.tolist() == [[True, False], [False, True]]
    assert all_subsets(2).hidden.long().tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_sizes_of_random_hidden_sets_are_uniform():
    from fairseq_gmlm.counter_rng import CounterRNG

    found = random_subsets(4, 20_000, CounterRNG(0, torch.tensor([5]))).hidden
    sizes = torch.bincount(found.sum(1), minlength=5) / 20_000
    assert sizes[0] == 0
    assert ((sizes[1:] - 0.25).abs() < 0.015).all()
    assert ((found.double().mean(0) - 0.625).abs() < 0.02).all()


def test_totals_and_perplexities():
    total = Total()
    total.add(torch.tensor([-1.0, -2.0], dtype=torch.double))
    total.add(torch.tensor([-3.0], dtype=torch.double))
    report = total.report(tokens=6, words=3)
    assert report == {
        "log_likelihood": -6.0,
        "perplexity_per_token": exp(1),
        "perplexity_per_word": exp(2),
    }
    random = Total()
    random.add(torch.tensor([[-1.0, -4.0], [-3.0, -8.0]], dtype=torch.double))
    report = random.report(tokens=8, words=4)
    assert report["log_likelihood"] == -8.0
    # Variances of the draws are 2 and 8; of means of two draws, 1 and 4.
    assert abs(report["log_likelihood_standard_error"] - 5**0.5) < 1e-12
    assert report["draws"] == 2
    assert abs(report["perplexity_per_token_standard_error"] - exp(1) * 5**0.5 / 8) < 1e-12
    assert perplexity(-1e6, 1) == float("inf")
    assert perplexity(0.0, 0) != perplexity(0.0, 0)


def test_enumeration_of_one_token():
    assert enumerate_orders(torch.tensor([[0.0], [-2.0]])) == (-2.0, -2.0)


def test_no_question_no_pass():
    model = Uneven()
    assert evaluate(model, [], [], FRAME, 10) == []
    assert model.passes == 0
