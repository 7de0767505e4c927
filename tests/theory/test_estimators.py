import pytest
import torch

from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.estimators import (
    fit_mle,
    fit_mple,
    fit_pseudolikelihood,
    lbfgs,
    masked_pairs,
    newton,
)
from fairseq_gmlm.theory.graphs import cycle_ising, dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import adaptive_blocks, bernoulli_mask, uniform_blocks
from fairseq_gmlm.theory.objectives import PseudolikelihoodObjective, population_pairs


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("loss", ["joint", "product"])
@pytest.mark.parametrize("model", [dense_ising(4, 0.5, 0.3, 0), dense_field(3, 3, 0.5, 0)])
@pytest.mark.parametrize("solve", [newton, lbfgs])
def test_both_solvers_find_the_truth_from_the_population(solve, model, loss):
    law = uniform_blocks(model.num_sites, 2)
    pairs = population_pairs(law, model.probabilities())
    objective = PseudolikelihoodObjective(model, law, *pairs, loss=loss)
    estimate = solve(objective, torch.zeros_like(model.parameters))
    assert estimate.converged
    assert torch.allclose(estimate.parameters, model.parameters, atol=1e-4)


def test_newton_takes_few_steps():
    model = dense_ising(5, 0.5, 0.3, 0)
    estimate = fit_mple(model, 3, model.sample(5000, seeded()), seeded(1))
    assert estimate.converged and estimate.iterations < 30


def test_newton_and_lbfgs_agree_on_data():
    model = dense_ising(4, 0.5, 0.3, 1)
    law = bernoulli_mask(4, 0.5)
    states = model.space.index(model.sample(3000, seeded()))
    objective = PseudolikelihoodObjective(model, law, *masked_pairs(law, states, 2, seeded(1)))
    zeros = torch.zeros_like(model.parameters)
    assert torch.allclose(
        newton(objective, zeros).parameters, lbfgs(objective, zeros).parameters, atol=1e-4
    )


def test_mle_matches_the_moments():
    model = dense_ising(4, 0.5, 0.3, 2)
    samples = model.sample(4000, seeded())
    estimate = fit_mle(model, samples)
    learned = model.with_parameters(estimate.parameters)
    seen = model.features()[model.space.index(samples)].mean(0)
    assert torch.allclose(learned.probabilities() @ learned.features(), seen, atol=1e-8)


def test_masking_everything_is_maximum_likelihood():
    model = dense_ising(4, 0.5, 0.3, 2)
    samples = model.sample(4000, seeded())
    by_masks = fit_mple(model, 4, samples, seeded(3))
    assert torch.allclose(by_masks.parameters, fit_mle(model, samples).parameters, atol=1e-8)


def test_besag_pseudolikelihood_is_logistic_regression_site_by_site():
    """With all single-site masks the gradient at the estimate vanishes as Besag's does."""
    model = dense_ising(3, 0.5, 0.3, 2)
    samples = model.sample(2000, seeded())
    theta = fit_pseudolikelihood(model, uniform_blocks(3, 1), samples, None).parameters
    learned = model.with_parameters(theta)
    x = samples.double() * 2 - 1
    residual = x - torch.tanh(learned.fields + x @ learned.couplings)
    assert residual.sum(0).abs().max() < 1e-5
    assert ((residual.T @ x + x.T @ residual)[0, 1] / len(x)).abs() < 1e-8


def test_only_the_edges_are_learned():
    model = cycle_ising(5, 0.4, 0.1)
    estimate = fit_mple(model, 2, model.sample(2000, seeded()), seeded(1))
    learned = model.with_parameters(estimate.parameters)
    assert learned.couplings[0, 2] == 0
    assert (learned.couplings[0, 1] - 0.4).abs() < 0.2


def test_product_loss_of_full_masks_stays_put_in_the_flat_directions():
    model = dense_ising(4, 0.5, 0.3, 2)
    estimate = fit_mple(model, 4, model.sample(4000, seeded()), seeded(1), loss="product")
    assert estimate.converged
    learned = model.with_parameters(estimate.parameters)
    spins = model.space.states().double() * 2 - 1
    truth = model.probabilities() @ spins
    assert (learned.probabilities() @ spins - truth).abs().max() < 0.1


def test_adaptive_masks_are_learned_from_with_the_right_conditional():
    model = dense_ising(3, 0.5, 0.3, 2)
    law = adaptive_blocks(
        model.space,
        [[0, 1], [2]],
        lambda x: torch.stack([5.0 * (x[:, 0] == x[:, 1]), 0.0 * x[:, 0]], 1),
    )
    samples = model.sample(60_000, seeded())
    right = fit_pseudolikelihood(model, law, samples, 1, generator=seeded(1))
    states = model.space.index(samples)
    pairs = masked_pairs(law, states, 1, seeded(1))
    naive = newton(
        PseudolikelihoodObjective(model, law, *pairs, plain_conditional=True),
        torch.zeros_like(model.parameters),
    )
    off_right = (right.parameters - model.parameters).norm()
    off_naive = (naive.parameters - model.parameters).norm()
    assert off_right < 0.1 < 0.25 < off_naive


def test_all_masks_of_a_sample_weigh_as_the_law():
    law = bernoulli_mask(3, 0.3)
    states, blocks, weights = masked_pairs(law, torch.tensor([5, 5, 2]), None)
    assert weights.sum().item() == pytest.approx(3)
    chosen = weights[states == 5]
    assert chosen.tolist() == pytest.approx((2 * law.probabilities).tolist())
    assert blocks[states == 5].tolist() == list(range(8))


def test_a_penalty_mends_a_minimum_at_infinity():
    model = IsingModel([[0, 0.5], [0.5, 0]], [0.0, 0.0])
    always_plus = torch.ones(50, 2, dtype=torch.long)
    law = uniform_blocks(2, 1)
    plain = fit_pseudolikelihood(model, law, always_plus, None)
    mended = fit_pseudolikelihood(model, law, always_plus, None, penalty=0.1)
    assert mended.converged
    assert mended.parameters.norm() < 3 < plain.parameters.norm()


def test_bad_data_are_named():
    model, law = dense_ising(3, 0.5, 0.3, 0), uniform_blocks(3, 1)
    with pytest.raises(ValueError, match="have 2 sites"):
        fit_pseudolikelihood(model, law, torch.zeros(4, 2, dtype=torch.long), 1, generator=seeded())
    with pytest.raises(ValueError, match="masks_per_sample=0"):
        masked_pairs(law, torch.tensor([0]), 0, seeded())
    with pytest.raises(ValueError, match="generator"):
        masked_pairs(law, torch.tensor([0]), 1)
    with pytest.raises(ValueError, match="k=4 is out of range"):
        fit_mple(model, 4, torch.zeros(4, 3, dtype=torch.long), seeded())
