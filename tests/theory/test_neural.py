import importlib
import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from fairseq_gmlm.theory.chains import (
    block_gibbs_matrix,
    masked_product_matrix,
    stationary_law,
    synchronous_matrix,
)
from fairseq_gmlm.theory.graphs import clique_ising, dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import (
    adaptive_blocks,
    bernoulli_mask,
    uniform_blocks,
    uniform_sizes,
)
from fairseq_gmlm.theory.neural import (
    block_gibbs_kernel,
    conditional_error,
    exact_conditional,
    masked_product_kernel,
    synchronous_kernel,
)
from fairseq_gmlm.theory.states import total_variation
from fairseq_gmlm.theory.training import as_conditional, train_network

MODELS = [dense_ising(4, 0.7, 0.3, 0), dense_field(3, 3, 0.7, 0)]


class SmallNetwork(nn.Module):
    """One hidden layer on one-hot symbols (or zeros where hidden), with a fixed seed."""

    def __init__(self, num_sites, seed, width=32):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Linear(2 * num_sites, width), nn.GELU(), nn.Linear(width, 2 * num_sites)
            )

    def forward(self, tokens, hidden):
        shown = nn.functional.one_hot(tokens, 2).float().masked_fill(hidden[..., None], 0)
        return torch.log_softmax(self.layers(shown.flatten(1)).reshape(*tokens.shape, 2), -1)


def uniform_conditional(alphabet_size):
    """A model that has learned nothing."""

    def conditional(tokens, hidden):
        return torch.full((*tokens.shape, alphabet_size), -math.log(alphabet_size))

    return conditional


@pytest.mark.parametrize("model", MODELS)
def test_exact_conditionals_have_exact_chains_and_no_error(model):
    exact, n = exact_conditional(model), model.num_sites
    for k in range(1, n + 1):
        law = uniform_blocks(n, k)
        product = masked_product_kernel(exact, model.space, law)
        assert torch.allclose(product, masked_product_matrix(model, law), atol=1e-12)
        block = block_gibbs_kernel(exact, model.space, law)
        assert torch.allclose(block, block_gibbs_matrix(model, law), atol=1e-12)
    sync = synchronous_kernel(exact, model.space)
    assert torch.allclose(sync, synchronous_matrix(model), atol=1e-12)
    errors = conditional_error(exact, model, bernoulli_mask(n, 0.5))
    assert sorted(errors) == list(range(1, n + 1))
    assert max(errors.values()) < 1e-12


def test_error_of_an_ignorant_model_is_the_missing_entropy():
    model = dense_ising(3, 0.7, 0.3, 0)
    q, states = model.probabilities().tolist(), list(itertools.product(range(2), repeat=3))
    entropy = 0.0
    for site in range(3):
        up = sum(p for p, x in zip(q, states) if x[site])
        entropy -= (up * math.log(up) + (1 - up) * math.log(1 - up)) / 3
    errors = conditional_error(uniform_conditional(2), model, uniform_sizes(3))
    assert errors[3] == pytest.approx(math.log(2) - entropy)
    assert errors[1] > errors[2] > errors[3]


def test_an_inconsistent_model_still_has_chains():
    kernel = block_gibbs_kernel(uniform_conditional(2), MODELS[0].space, uniform_blocks(4, 2))
    assert torch.allclose(kernel.sum(1), torch.ones(16).double())
    assert torch.allclose(stationary_law(kernel), torch.full((16,), 1 / 16).double())


def test_bad_conditionals_are_named():
    space, law = MODELS[0].space, uniform_blocks(4, 2)
    with pytest.raises(ValueError, match=r"answered \(24, 4, 3\), expected \(24, 4, 2\)"):
        masked_product_kernel(uniform_conditional(3), space, law)
    with pytest.raises(ValueError, match="sum to 1"):
        masked_product_kernel(lambda tokens, hidden: torch.zeros(24, 4, 2), space, law)
    with pytest.raises(ValueError, match="too many states"):
        synchronous_kernel(uniform_conditional(2), clique_ising([13], 0.1).space)


def test_a_small_network_learns_the_conditionals():
    model, n = clique_ising([3], 0.4, 0.3), 3
    samples = model.sample(4000, torch.Generator().manual_seed(0))
    network = SmallNetwork(n, seed=0)
    before = conditional_error(as_conditional(network), model, uniform_sizes(n))
    loss = train_network(network, samples, uniform_sizes(n), 250, seed=0, batch_size=128)
    after = conditional_error(as_conditional(network), model, uniform_sizes(n))
    assert 0.3 < loss < math.log(2)
    for k in (1, 2, 3):
        assert after[k] < 0.01 < before[k]
    joint = block_gibbs_kernel(as_conditional(network), model.space, uniform_blocks(n, n))
    assert total_variation(stationary_law(joint), model.probabilities()) < 0.1


def test_networks_and_training_are_reproducible_and_hide_what_is_hidden():
    model = clique_ising([3], 0.4, 0.3)
    samples = model.sample(200, torch.Generator().manual_seed(0))
    answers = []
    for _ in range(2):
        network = SmallNetwork(3, seed=4)
        train_network(network, samples, uniform_sizes(3), 3, seed=1, batch_size=16)
        hidden = torch.tensor([[True, False, True]])
        first = as_conditional(network)(torch.tensor([[0, 1, 0]]), hidden)
        other = as_conditional(network)(torch.tensor([[1, 1, 1]]), hidden)
        assert first.equal(other)
        answers.append(first)
    assert answers[0].equal(answers[1])


def test_masks_that_cannot_be_trained_with_are_named():
    network, samples = SmallNetwork(2, seed=0), torch.zeros(4, 2, dtype=torch.long)
    space = clique_ising([2], 0.1).space
    adaptive = adaptive_blocks(space, [[0], [1]], lambda x: torch.zeros(len(x), 2))
    for law in (bernoulli_mask(2, 0.5), adaptive):
        with pytest.raises(ValueError, match="always hides a site"):
            train_network(network, samples, law, 1, 0)


def test_the_language_model_of_the_example_answers_about_symbols(monkeypatch):
    pytest.importorskip("fairseq")
    examples = Path(__file__).parents[2] / "examples" / "ising"
    monkeypatch.syspath_prepend(str(examples))
    network = importlib.import_module("language_model").build_language_model(3, 2, seed=0)
    model = clique_ising([3], 0.4, 0.3)
    samples = model.sample(500, torch.Generator().manual_seed(0))
    train_network(network, samples, uniform_sizes(3), 60, seed=0, batch_size=64)
    conditional = as_conditional(network)
    hidden = torch.tensor([[True, False, True]])
    first = conditional(torch.tensor([[0, 1, 0]]), hidden)
    assert first.shape == (1, 3, 2) and first.exp().sum(-1).allclose(torch.ones(1, 3))
    assert first.equal(conditional(torch.tensor([[1, 1, 1]]), hidden))
    assert not first.equal(conditional(torch.tensor([[0, 0, 0]]), hidden))
    assert conditional_error(conditional, model, uniform_sizes(3))[3] < 0.05
