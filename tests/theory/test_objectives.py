import ising_plain as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ising_strategies import ising_tables

from fairseq_gmlm.theory.conditionals import conditional_tables
from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.graphs import dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import adaptive_blocks, bernoulli_mask, uniform_blocks
from fairseq_gmlm.theory.objectives import PseudolikelihoodObjective, population_pairs
from fairseq_gmlm.theory.states import StateSpace


@settings(deadline=None, max_examples=25)
@given(ising_tables(3, 4), st.sampled_from(["joint", "product"]), st.data())
def test_value_is_the_definition(tables, loss, data):
    n = len(tables[1])
    model = IsingModel(*tables)
    law = bernoulli_mask(n, 0.5)
    count = data.draw(st.integers(1, 6))
    states = data.draw(st.lists(st.integers(0, 2**n - 1), min_size=count, max_size=count))
    blocks = data.draw(st.lists(st.integers(0, 2**n - 1), min_size=count, max_size=count))
    objective = PseudolikelihoodObjective(
        model, law, torch.tensor(states), torch.tensor(blocks), loss=loss
    )
    every = plain.states(n)
    pairs = [(every[s], law.sites[b]) for s, b in zip(states, blocks)]
    expected = plain.loss(*tables, pairs, loss == "product")
    assert objective.value(model.parameters) == pytest.approx(expected, abs=1e-10)


def differences(function, theta, step=1e-5):
    """Central differences of a function of a vector, one row for each coordinate."""
    rows = []
    for i in range(len(theta)):
        shift = torch.zeros_like(theta)
        shift[i] = step
        rows.append((function(theta + shift) - function(theta - shift)) / (2 * step))
    return torch.stack([torch.as_tensor(row, dtype=torch.double) for row in rows])


@pytest.mark.parametrize("loss", ["joint", "product"])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(
    "make", [lambda: dense_ising(4, 0.6, 0.4, 0), lambda: dense_field(3, 3, 0.6, 1)]
)
def test_gradient_and_hessian_are_derivatives(loss, adaptive, make):
    model = make()
    n, space = model.num_sites, model.space
    law = bernoulli_mask(n, 0.4)
    if adaptive:
        law = adaptive_blocks(
            space,
            [[0, 1], [2], [0, 2]],
            lambda x: torch.stack([x[:, 0], x[:, 1], x[:, 2]], 1) * 1.0,
        )
    generator = torch.Generator().manual_seed(0)
    states = torch.randint(space.num_states, (12,), generator=generator)
    blocks = torch.randint(len(law.sites), (12,), generator=generator)
    weights = torch.rand(12, generator=generator)
    objective = PseudolikelihoodObjective(model, law, states, blocks, weights, loss, penalty=0.3)
    theta = 0.5 * model.parameters + 0.1
    gradient = objective.gradient(theta)
    assert torch.allclose(gradient, differences(objective.value, theta), atol=1e-7)
    hessian = objective.hessian(theta)
    assert torch.allclose(hessian, differences(objective.gradient, theta), atol=1e-7)


def test_population_loss_is_least_at_the_truth():
    model = dense_ising(4, 0.5, 0.3, 2)
    for loss in ("joint", "product"):
        pairs = population_pairs(uniform_blocks(4, 2), model.probabilities())
        objective = PseudolikelihoodObjective(model, uniform_blocks(4, 2), *pairs, loss=loss)
        assert objective.gradient(model.parameters).abs().max() < 1e-12
        assert torch.linalg.eigvalsh(objective.hessian(model.parameters))[0] > 0


def test_the_correct_adaptive_conditional_is_unbiased_and_the_plain_one_is_not():
    """Notes, 1.5: with K ~ p(K | x), learn p(x_K | x_-K, K)."""
    model = dense_ising(3, 0.5, 0.3, 2)
    law = adaptive_blocks(
        model.space,
        [[0, 1], [1, 2], [0, 2]],
        lambda x: torch.stack([2.0 * (x[:, 0] == x[:, 1]), 0.0 * x[:, 0], 1.0 * x[:, 2]], 1),
    )
    pairs = population_pairs(law, model.probabilities())
    right = PseudolikelihoodObjective(model, law, *pairs)
    naive = PseudolikelihoodObjective(model, law, *pairs, plain_conditional=True)
    assert right.gradient(model.parameters).abs().max() < 1e-12
    assert naive.gradient(model.parameters).abs().max() > 0.05


def test_an_adaptive_law_that_looks_only_at_visible_sites_needs_no_correction():
    model = dense_ising(3, 0.5, 0.3, 2)
    law = adaptive_blocks(
        model.space, [[0], [1]], lambda x: torch.stack([2.0 * x[:, 2], 0.0 * x[:, 2]], 1)
    )
    assert not law.depends_on_hidden(model.space)
    pairs = population_pairs(law, model.probabilities())
    naive = PseudolikelihoodObjective(model, law, *pairs, plain_conditional=True)
    assert naive.gradient(model.parameters).abs().max() < 1e-12


def test_bad_objectives_are_named():
    model, law = dense_ising(3, 0.5, 0.3, 0), uniform_blocks(3, 1)
    with pytest.raises(ValueError, match="loss 'both' is unknown: choose one of joint, product"):
        PseudolikelihoodObjective(model, law, torch.tensor([0]), torch.tensor([0]), loss="both")
    with pytest.raises(ValueError, match="equally long"):
        PseudolikelihoodObjective(model, law, torch.tensor([0, 1]), torch.tensor([0]))


def test_tables_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="mask law has 4 sites, the model 3"):
        conditional_tables(StateSpace(3), uniform_blocks(4, 1))
    with pytest.raises(ValueError, match="12870 blocks times 65536 states"):
        conditional_tables(StateSpace(16), uniform_blocks(16, 8))


def test_tables_of_sixteen_spins_are_made():
    (table,) = conditional_tables(StateSpace(16), uniform_blocks(16, 1))
    assert table.states.shape == (16 * 2**15, 2)
