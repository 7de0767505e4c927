import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.theory.asymptotics import (
    information,
    order_gap,
    poincare_order_gap,
    sandwich,
)
from fairseq_gmlm.theory.constants import poincare_constant
from fairseq_gmlm.theory.estimators import fit_mple
from fairseq_gmlm.theory.graphs import clique_ising, dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import bernoulli_mask, uniform_blocks


def test_joint_loss_with_one_mask(reference, reference_model):
    for k, expected in enumerate(reference["trace_inverse_information_joint_one_mask"], 1):
        law = uniform_blocks(5, k)
        inverse = torch.linalg.inv(information(reference_model, law))
        assert inverse.trace().item() == pytest.approx(expected, abs=1e-6)
        assert sandwich(reference_model, law).trace == pytest.approx(expected, abs=1e-6)


def test_caveat_a_all_masks_of_each_sample_hide_the_effect(reference, reference_model):
    """Averaging over all masks leaves little to gain: 56.9 to 56.5, not 165.8 to 56.5."""
    for k, expected in enumerate(reference["trace_sandwich_joint_all_masks"], 1):
        found = sandwich(reference_model, uniform_blocks(5, k), masks_per_sample=None)
        assert found.trace == pytest.approx(expected, abs=1e-6)
    one = [sandwich(reference_model, uniform_blocks(5, k)).trace for k in (1, 5)]
    every = [
        sandwich(reference_model, uniform_blocks(5, k), masks_per_sample=None).trace for k in (1, 5)
    ]
    assert one[0] / one[1] > 2.9
    assert every[0] / every[1] < 1.01


def test_caveat_b_the_product_loss_has_an_interior_optimum(reference, reference_model):
    for k, expected in enumerate(reference["trace_sandwich_product_one_mask"], 1):
        found = sandwich(reference_model, uniform_blocks(5, k), loss="product")
        assert found.trace == pytest.approx(expected, abs=1e-6)
    traces = reference["trace_sandwich_product_one_mask"]
    assert traces[0] > traces[1] < traces[2] < traces[3]


def test_full_masks_with_the_product_loss_learn_the_margins_only(reference_model):
    found = sandwich(reference_model, uniform_blocks(5, 5), loss="product")
    assert (found.rank, found.covariance, found.trace) == (5, None, None)


def test_more_masks_a_sample_lie_between(reference_model):
    law = uniform_blocks(5, 1)
    traces = [sandwich(reference_model, law, masks_per_sample=m).trace for m in (1, 2, 4, None)]
    assert traces == sorted(traces, reverse=True)
    # J_m is affine in 1/m, hence so is the trace.
    assert traces[1] == pytest.approx((traces[0] + traces[3]) / 2)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(2, 5))
def test_masking_more_is_better_in_the_matrix_order(seed, n):
    model = dense_ising(n, 0.6, 0.4, seed)
    matrices = [information(model, uniform_blocks(n, k)) for k in range(1, n + 1)]
    for smaller, larger in itertools.pairwise(matrices):
        assert order_gap(larger, smaller) > -1e-10


def test_the_order_needs_no_spins():
    model = dense_field(3, 3, 0.6, 0)
    first, second, third = (information(model, uniform_blocks(3, k)) for k in (1, 2, 3))
    assert order_gap(second, first) > -1e-10
    assert order_gap(third, second) > -1e-10


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_covariance_is_within_the_poincare_constant_of_the_best(seed, k):
    model, law = dense_ising(4, 0.6, 0.4, seed), uniform_blocks(4, k)
    assert poincare_order_gap(model, law, poincare_constant(model, law)) > -1e-8


def test_information_is_the_covariance_of_the_score_by_enumeration():
    model, k = clique_ising([3], 0.4, 0.2), 2
    q, features, states = model.probabilities(), model.features(), model.space.states()
    expected = torch.zeros(6, 6).double()
    for block in ([0, 1], [0, 2], [1, 2]):
        (visible,) = [i for i in range(3) if i not in block]
        for symbol in (0, 1):
            here = states[:, visible] == symbol
            p = q[here] / q[here].sum()
            centred = features[here] - p @ features[here]
            expected += q[here].sum() * centred.T @ (p[:, None] * centred) / 3
    assert torch.allclose(information(model, uniform_blocks(3, k)), expected, atol=1e-12)


@pytest.mark.parametrize("loss", ["joint", "product"])
def test_the_sandwich_predicts_the_error_of_the_estimator(loss):
    model, count, repeats = clique_ising([3], 0.4, 0.2), 4000, 120
    total = 0.0
    for repeat in range(repeats):
        generator = torch.Generator().manual_seed(repeat)
        samples = model.sample(count, generator)
        theta = fit_mple(model, 2, samples, generator, loss).parameters
        total += ((theta - model.parameters) ** 2).sum().item()
    expected = sandwich(model, uniform_blocks(3, 2), loss).trace
    # Six parameters and 120 repeats: a standard error of about 6 %.
    assert count * total / repeats == pytest.approx(expected, rel=0.2)


def test_scores_are_uncorrelated_with_the_hessian_for_any_law():
    """Bartlett's identity for each block: J = H for the joint loss with one mask."""
    model = dense_field(3, 3, 0.5, 4)
    found = sandwich(model, bernoulli_mask(3, 0.4))
    assert torch.allclose(found.hessian, found.score_covariance, atol=1e-12)


def test_bad_settings_are_named(reference_model):
    with pytest.raises(ValueError, match="loss 'sum' is unknown"):
        sandwich(reference_model, uniform_blocks(5, 1), loss="sum")
    with pytest.raises(ValueError, match="masks_per_sample=0"):
        sandwich(reference_model, uniform_blocks(5, 1), masks_per_sample=0)
