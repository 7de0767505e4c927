import math

import ising_plain as plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.theory.bounds import excess_loss, joint_quality
from fairseq_gmlm.theory.graphs import clique_ising, dense_ising
from fairseq_gmlm.theory.mask_laws import uniform_blocks


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 500), st.integers(501, 1000), st.integers(1, 3))
def test_excess_loss_is_the_definition(first, second, k):
    truth, learned = dense_ising(3, 0.6, 0.3, first), dense_ising(3, 0.6, 0.3, second)
    q, p = truth.probabilities().tolist(), learned.probabilities().tolist()
    law, expected = uniform_blocks(3, k), 0.0
    for block in law.sites:
        for weight, x in zip(q, plain.states(3)):
            ours, theirs = (plain.conditional(side, 3, block, x) for side in (q, p))
            filling = tuple(x[i] for i in block)
            expected += weight * math.log(ours[filling] / theirs[filling]) / len(law.sites)
    assert excess_loss(truth, learned, law) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=4)
@given(st.integers(0, 500), st.integers(501, 1000), st.integers(1, 3))
def test_the_bound_holds(first, second, k):
    truth, learned = dense_ising(3, 0.6, 0.3, first), dense_ising(3, 0.6, 0.3, second)
    found = joint_quality(truth, learned, uniform_blocks(3, k), starts=0)
    q, p = truth.probabilities().tolist(), learned.probabilities().tolist()
    assert found.kl == pytest.approx(plain.kl(q, p), abs=1e-12)
    distance = sum(abs(a - b) for a, b in zip(q, p)) / 2
    assert found.total_variation == pytest.approx(distance)
    assert found.kl <= found.kl_bound + 1e-12
    assert found.total_variation <= found.total_variation_bound + 1e-12
    assert found.constant_lower <= found.constant_upper


def test_full_masks_have_nothing_to_lose():
    truth, learned = clique_ising([4], 0.4, 0.2), clique_ising([4], 0.5, 0.1)
    found = joint_quality(truth, learned, uniform_blocks(4, 4), starts=0)
    assert found.constant_upper == 1
    assert found.kl == pytest.approx(found.kl_bound)


def test_a_perfect_model_has_no_excess():
    truth = clique_ising([4], 0.4, 0.2)
    found = joint_quality(truth, truth, uniform_blocks(4, 2), starts=0)
    assert found.excess < 1e-12 and found.total_variation == 0


def test_models_of_another_size_are_named():
    with pytest.raises(ValueError, match="truth has 4 sites of 2 symbols, the learned model 3"):
        excess_loss(clique_ising([4], 0.4), clique_ising([3], 0.4), uniform_blocks(4, 2))
