"""The aligner against the same mathematics written out in loops."""

import itertools
import math
import random

import pytest
import torch

from fairseq_gmlm.analysis.alignment import (
    best_places,
    make_cells,
    posteriors,
    train,
    unaligned,
)

PAIRS = [([1, 2], [1, 2, 3]), ([2, 3], [2, 1]), ([1], [1]), ([], [3]), ([3, 1], [])]
NULL_SHARE, TENSION = 0.2, 3.0


def loop_prior(n: int, m: int, j: int) -> list:
    """p(place) for places 0 .. n."""
    if n == 0:
        return [1.0]
    weights = [math.exp(-TENSION * abs(i / n - j / m)) for i in range(1, n + 1)]
    return [NULL_SHARE, *((1 - NULL_SHARE) * w / sum(weights) for w in weights)]


def loop_em(rounds: int) -> tuple:
    """Probabilities and expected counts by (source, target), NULL being 0."""
    table = {
        (s, t): 1.0 for source, target in PAIRS for s, t in itertools.product([0, *source], target)
    }
    for _ in range(rounds):
        counts = dict.fromkeys(table, 0.0)
        for source, target in PAIRS:
            for j, word in enumerate(target, 1):
                prior = loop_prior(len(source), len(target), j)
                joint = [p * table[s, word] for p, s in zip(prior, [0, *source])]
                for s, value in zip([0, *source], joint):
                    counts[s, word] += value / sum(joint)
        totals = {s: sum(c for (a, _), c in counts.items() if a == s) for s, _ in table}
        table = {(s, t): c / totals[s] for (s, t), c in counts.items()}
    return table, counts


def test_expectation_maximisation_as_in_loops() -> None:
    lexicon = train(make_cells(PAIRS, NULL_SHARE, TENSION), width=4, rounds=3)
    table, counts = loop_em(3)
    assert lexicon.keys.tolist() == sorted(4 * s + t for s, t in table)
    for key, probability, count in zip(
        lexicon.keys.tolist(), lexicon.probabilities.tolist(), lexicon.counts.tolist()
    ):
        assert probability == pytest.approx(table[divmod(key, 4)], abs=1e-12)
        assert count == pytest.approx(counts[divmod(key, 4)], abs=1e-12)


def test_variational_step_by_hand() -> None:
    """One round from the uniform start: counts are posteriors under the prior alone."""
    lexicon = train(make_cells([([1], [1, 2])], 0.2, 0.0), width=3, rounds=1, smoothing=0.5)
    counts = torch.tensor([0.2, 0.2, 0.8, 0.8], dtype=torch.float64)
    totals = torch.tensor([0.4, 0.4, 1.6, 1.6], dtype=torch.float64)
    expected = torch.exp(torch.digamma(counts + 0.5) - torch.digamma(totals + 1.0))
    torch.testing.assert_close(lexicon.counts, counts)
    torch.testing.assert_close(lexicon.probabilities, expected)


def test_posteriors_and_priors_sum_to_one() -> None:
    cells = make_cells(PAIRS)
    for values in (cells.prior, posteriors(cells, torch.rand(len(cells.slot)).double() + 0.1)):
        total = torch.zeros(cells.slots, dtype=torch.float64).index_add_(0, cells.slot, values)
        torch.testing.assert_close(total, torch.ones_like(total))


def test_ties_go_to_the_left() -> None:
    cells = make_cells([([1, 1], [1])], null=0.2, tension=0.0)
    assert best_places(cells, torch.ones(3, dtype=torch.float64)).tolist() == [1]


def toy_corpus(seed: int = 0) -> list:
    """Word w becomes w + 10; word 9 is not translated; 8 is added by nothing, at random."""
    rng, pairs = random.Random(seed), []
    for _ in range(300):
        source = [rng.randrange(1, 10) for _ in range(rng.randrange(2, 7))]
        target = [word + 10 for word in source if word != 9]
        if rng.random() < 0.5:
            target.insert(rng.randrange(len(target) + 1), 8)
        pairs.append((source, target))
    return pairs


def test_dropped_and_added_words_are_found() -> None:
    pairs = toy_corpus()
    turned = [(target, source) for source, target in pairs]
    forward = train(make_cells(pairs), 20, smoothing=0.01)
    backward = train(make_cells(turned), 10, smoothing=0.01)
    for lexicon, sides, word in ((forward, pairs, 8), (backward, turned, 9)):
        right = [
            n == target.count(word) for n, (_, target) in zip(unaligned(lexicon, sides), sides)
        ]
        assert sum(right) > 0.8 * len(right)
    # A word beyond the lexicon is explained by nothing; so is one whose source is not there.
    assert unaligned(forward, [([1, 2], [11, 12, 25]), ([1, 2], [11, 15])]) == [1, 1]
    # Word 7 has no translation here.
    assert unaligned(backward, [([11, 12], [1, 7, 2])]) == [1]
