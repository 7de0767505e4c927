"""Decoding strategies on laws that can be enumerated: what they reproduce, and how they err."""

from itertools import pairwise, permutations

import pytest
import torch
from solvable import (
    EOS,
    FIRST,
    MASK,
    Exact,
    all_states,
    canvas,
    conditional_law,
    ising_strip,
    markov_joint,
    output_law,
    sampled_law,
    total_variation,
)

from fairseq_gmlm.decoding.chain import run_chain
from fairseq_gmlm.decoding.orders import inverse
from fairseq_gmlm.decoding.strategies.any_order import AnyOrder
from fairseq_gmlm.decoding.strategies.easy_first import EasyFirst
from fairseq_gmlm.decoding.strategies.gibbs import Gibbs
from fairseq_gmlm.decoding.strategies.threshold import Threshold


def given(order):
    """A strategy that reveals positions (from 0) in this order."""
    ranks = inverse(torch.tensor([order]))[0]
    return {len(order): ranks}


def enumerated(law, order, per_pass):
    """Law of revealing ``per_pass`` sites at a time as if independent, by plain loops."""
    result = []
    for state in all_states(law).tolist():
        total = 1.0
        for begin in range(0, len(order), per_pass):
            hidden = order[begin:]
            for site in order[begin : begin + per_pass]:
                total *= float(conditional_law(law, hidden, state, site)[state[site]])
        result.append(total)
    return torch.tensor(result, dtype=torch.double)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_one_position_a_pass_reproduces_the_joint_in_every_order(order):
    law = markov_joint()
    produced = output_law(law, AnyOrder("file", 1, given(order)), passes=4)
    assert total_variation(produced, law) < 1e-6


@pytest.mark.parametrize("order", ["left-to-right", "right-to-left", "random", "surest-first"])
def test_named_orders_reproduce_an_ising_strip(order):
    law = ising_strip()
    assert total_variation(output_law(law, AnyOrder(order), passes=6), law) < 1e-6


@pytest.mark.parametrize("early_stop", [True, False])
def test_passes_beyond_the_last_mask_change_nothing(early_stop):
    law = markov_joint()
    produced = output_law(law, AnyOrder("random"), passes=9, early_stop=early_stop)
    assert total_variation(produced, law) < 1e-6


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)])
@pytest.mark.parametrize("per_pass", [2, 3, 4])
def test_bias_of_several_positions_a_pass_is_the_enumerated_one(order, per_pass):
    law = markov_joint()
    expected = enumerated(law, list(order), per_pass)
    produced = output_law(law, AnyOrder("file", per_pass, given(order)), passes=4)
    assert total_variation(produced, expected) < 1e-9
    assert total_variation(expected, law) > 0.02


def test_bias_measured_by_sampling_is_the_enumerated_one():
    law = markov_joint(sites=3, symbols=2, sharpness=4.0)
    order, count = (0, 1, 2), 200_000
    expected = enumerated(law, list(order), 3)
    strategy = AnyOrder("file", 3, given(order))
    found = sampled_law(law, strategy, passes=1, count=count)
    # Each of the 8 frequencies within 4.5 standard errors.
    error = (expected * (1 - expected) / count).sqrt()
    assert ((found - expected).abs() < 4.5 * error).all()
    bias = total_variation(expected, law)
    assert bias > 0.1
    assert abs(total_variation(found, law) - bias) < 0.01


def test_samples_one_at_a_time_follow_the_joint():
    law, count = markov_joint(sites=3, symbols=2), 100_000
    found = sampled_law(law, AnyOrder("random"), passes=3, count=count)
    flat = law.reshape(-1)
    assert ((found - flat).abs() < 4.5 * (flat * (1 - flat) / count).sqrt()).all()


def test_too_few_passes_reveal_more_at_a_time_and_leave_no_mask():
    law = markov_joint()
    produced = output_law(law, AnyOrder("left-to-right", 1), passes=2)
    assert total_variation(produced, enumerated(law, [0, 1, 2, 3], 2)) < 1e-9
    produced = output_law(law, AnyOrder("left-to-right", 1), passes=3)  # 2, then 1 and 1
    by_hand = []
    for state in all_states(law).tolist():
        total = 1.0
        for hidden, sites in (([0, 1, 2, 3], [0, 1]), ([2, 3], [2]), ([3], [3])):
            for site in sites:
                total *= float(conditional_law(law, hidden, state, site)[state[site]])
        by_hand.append(total)
    assert total_variation(produced, torch.tensor(by_hand, dtype=torch.double)) < 1e-9


def path(law, state, told, reveal):
    """Probability and reveal sets of a chain by plain loops; ``reveal`` picks from log-probs."""
    hidden, total, sets = list(range(law.dim())), 1.0, []
    while hidden:
        probs = {i: conditional_law(law, hidden, state, i) for i in hidden}
        chosen = reveal({i: float(p[told[i]]) for i, p in probs.items()})
        for i in chosen:
            total *= float(probs[i][told[i]])
        sets.append(sorted(chosen))
        hidden = [i for i in hidden if i not in chosen]
    return total, sets


def revealed(law, strategy, told, passes):
    """Sets of sites that the chain reveals, pass by pass, told what to choose."""
    result = run_chain(
        Exact(law, told=told[None]),
        canvas(1, law.dim()),
        strategy,
        passes,
        keep_history=True,
    )
    masked = [record.shown[0, 1:-1] == MASK for record in result.history]
    masked.append(torch.zeros_like(masked[0]))
    return [(a & ~b).nonzero().squeeze(1).tolist() for a, b in pairwise(masked)]


@pytest.mark.parametrize("per_pass", [1, 2])
def test_easy_first_keeps_the_surest(per_pass):
    law = markov_joint(seed=3)
    for told in all_states(law)[::7]:
        state = told.tolist()
        _, expected = path(law, state, state, lambda p: sorted(p, key=lambda i: -p[i])[:per_pass])
        assert revealed(law, EasyFirst(per_pass), told, 4) == expected


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.95])
def test_threshold_keeps_what_is_sure_and_at_least_one(threshold):
    law = markov_joint(seed=3)

    def reveal(probs):
        sure = [i for i in probs if probs[i] >= threshold]
        return sure or [max(probs, key=probs.get)]

    for told in all_states(law)[::7]:
        state = told.tolist()
        _, expected = path(law, state, state, reveal)
        assert revealed(law, Threshold(threshold), told, 4) == expected


def kernel(law, block):
    """Transition matrix of block Gibbs with product updates, by enumeration."""
    states = all_states(law).tolist()
    number = {tuple(s): k for k, s in enumerate(states)}
    sets = [list(p) for p in permutations(range(law.dim()), block) if list(p) == sorted(p)]
    matrix = torch.zeros(len(states), len(states), dtype=torch.double)
    for hidden in sets:
        for row, old in enumerate(states):
            laws = {i: conditional_law(law, hidden, old, i) for i in hidden}
            for fill in all_states(law[(0,) * (law.dim() - block)]).tolist():
                new, total = list(old), 1.0 / len(sets)
                for i, symbol in zip(hidden, fill):
                    new[i] = symbol
                    total *= float(laws[i][symbol])
                matrix[row, number[tuple(new)]] += total
    return matrix


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("passes", [1, 3])
def test_gibbs_steps_follow_the_enumerated_kernel(block, passes):
    law, count = ising_strip(1, 3, coupling=0.9), 60_000
    start = canvas(count, 3, seed=5)
    start.tokens = start.tokens.masked_fill(start.free, FIRST)  # all spins down
    strategy = Gibbs(block)
    start = strategy.from_draft(start, MASK)
    assert ((start.tokens == MASK).sum(1) == block).all()
    found = sampled_law(law, strategy, passes, count, state=start)
    expected = torch.linalg.matrix_power(kernel(law, block), passes)[0]
    error = (expected * (1 - expected) / count).sqrt()
    assert ((found - expected).abs() <= 4.5 * error + 1e-12).all()


def test_single_site_gibbs_leaves_the_joint_and_blocks_are_biased():
    law = ising_strip(1, 3, coupling=0.9)
    flat = law.reshape(-1)
    assert total_variation(flat @ kernel(law, 1), flat) < 1e-12
    assert total_variation(flat @ kernel(law, 2), flat) > 0.01


def test_gibbs_from_masks_fills_everything_first_and_ends_without_a_mask():
    law = markov_joint()
    for passes in (1, 2, 5):
        result = run_chain(
            Exact(law, told=torch.tensor([[0, 1, 2, 0]])), canvas(1, 4), Gibbs(2), passes
        )
        assert result.tokens[0, 1:-1].tolist() == [4, 5, 6, 4]
        assert int(result.passes[0]) == passes


@pytest.mark.parametrize(
    "strategy", [AnyOrder("random", 1), EasyFirst(1), Threshold(0.99), Gibbs(1)]
)
@pytest.mark.parametrize("passes", [1, 2, 3, 7])
def test_no_mask_is_left_and_given_tokens_stay(strategy, passes):
    law = markov_joint()
    state = canvas(5, 4)
    state.tokens[:, 2] = FIRST + 1  # a constraint
    state.free[:, 2] = state.pending[:, 2] = False
    state.place = (state.free.long().cumsum(1) - 1).clamp(min=0)
    state.draft = state.initial = state.shown = state.tokens
    from fairseq_gmlm.decoding.choice import Choice

    result = run_chain(Exact(law, choice=Choice(1.0)), state, strategy, passes)
    assert (result.tokens[:, 2] == FIRST + 1).all()
    assert (result.tokens[:, 1:-1] >= FIRST).all()
    assert (result.tokens[:, -1] == EOS).all()


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: AnyOrder("sideways"), "--decode-order must be one of"),
        (lambda: AnyOrder("random", 0), "--positions-per-pass must be at least 1, not 0"),
        (lambda: EasyFirst(0), "--positions-per-pass must be at least 1, not 0"),
        (lambda: Threshold(0.0), "--decode-threshold must be above 0 and at most 1, not 0.0"),
        (lambda: Threshold(1.5), "--decode-threshold"),
        (lambda: Gibbs(0), "--gibbs-block must be at least 1, not 0"),
    ],
)
def test_bad_values_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
