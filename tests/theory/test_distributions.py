import itertools
import math

import ising_plain as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ising_strategies import ising_tables

from fairseq_gmlm.theory.distributions import IsingModel, PairwiseField
from fairseq_gmlm.theory.graphs import dense_field, dense_ising


@settings(deadline=None)
@given(ising_tables())
def test_ising_law_is_the_definition(tables):
    law = IsingModel(*tables).probabilities()
    assert law.tolist() == pytest.approx(plain.ising_law(*tables), abs=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_categorical_law_is_the_definition(seed):
    model = dense_field(3, 3, 0.7, seed)
    weights = []
    for x in itertools.product(range(3), repeat=3):
        energy = sum(model.unary[i, x[i]].item() for i in range(3))
        for i, j in ((0, 1), (0, 2), (1, 2)):
            energy += model.pair[i, j, x[i], x[j]].item()
        weights.append(math.exp(energy))
    expected = [w / sum(weights) for w in weights]
    assert model.probabilities().tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("model", [dense_ising(4, 0.8, 0.4, 3), dense_field(3, 3, 0.8, 3)])
def test_features_and_parameters_make_the_same_law(model):
    law = torch.softmax(model.features() @ model.parameters, 0)
    assert torch.allclose(law, model.probabilities(), atol=1e-12)
    again = model.with_parameters(model.parameters)
    assert torch.allclose(again.probabilities(), model.probabilities(), atol=1e-12)
    assert torch.allclose(again.parameters, model.parameters, atol=1e-12)


def test_ising_and_its_tables_agree():
    ising = dense_ising(4, 0.5, 0.5, 1)
    field = PairwiseField(ising.unary, ising.pair)
    assert torch.allclose(field.probabilities(), ising.probabilities(), atol=1e-14)
    assert field.parameters.shape == ising.parameters.shape == (10,)


@settings(deadline=None, max_examples=25)
@given(ising_tables(3, 4), st.data())
def test_block_conditionals_are_bayes_rule(tables, data):
    n = len(tables[1])
    block = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    x = data.draw(st.tuples(*[st.integers(0, 1)] * n))
    answer = IsingModel(*tables).block_log_conditionals(torch.tensor([x]), torch.tensor([block]))
    table = plain.conditional(plain.ising_law(*tables), n, block, x)
    expected = [table[f] for f in itertools.product(range(2), repeat=len(block))]
    assert answer[0].exp().tolist() == pytest.approx(expected, abs=1e-12)


def test_block_conditionals_of_many_rows_with_their_own_blocks():
    model = dense_field(4, 3, 0.6, 5)
    states = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1], [1, 0, 0, 2]])
    blocks = torch.tensor([[0, 1], [3, 1], [2, 3]])
    together = model.block_log_conditionals(states, blocks)
    for row in range(3):
        alone = model.block_log_conditionals(states[row : row + 1], blocks[row : row + 1])
        assert torch.allclose(together[row], alone[0], atol=1e-14)


def test_local_logits_are_the_blocks_of_one():
    model = dense_ising(5, 0.5, 0.5, 2)
    states = model.space.states()
    local = torch.log_softmax(model.local_logits(states), -1)
    for site in range(5):
        block = torch.full((len(states), 1), site)
        assert torch.allclose(model.block_log_conditionals(states, block), local[:, site])


def test_samples_follow_the_law():
    model = dense_ising(3, 0.7, 0.4, 4)
    samples = model.sample(200_000, torch.Generator().manual_seed(0))
    seen = torch.bincount(model.space.index(samples), minlength=8) / 200_000
    assert (seen - model.probabilities()).abs().max() < 0.005


BAD_ISING = [
    ([[0, 1.0], [2.0, 0]], [0, 0], r"asymmetric: \[0, 1\] is 1.0 and \[1, 0\] is 2.0"),
    ([[1.0, 0], [0, 0]], [0, 0], "diagonal"),
    ([[0, math.nan], [math.nan, 0]], [0, 0], "couplings hold a value that is not finite"),
    ([[0, 1.0], [1.0, 0]], [0, math.inf], "fields hold a value that is not finite"),
    ([[0, 1.0], [1.0, 0]], [0, 0, 0], r"couplings have shape \(2, 2\) and fields \(3,\)"),
]


@pytest.mark.parametrize("couplings,fields,message", BAD_ISING)
def test_bad_ising_models_are_named(couplings, fields, message):
    with pytest.raises(ValueError, match=message):
        IsingModel(couplings, fields)


def test_bad_tables_are_named():
    pair = torch.zeros(2, 2, 2, 2).double()
    with pytest.raises(ValueError, match="expected"):
        PairwiseField(torch.zeros(3, 2), pair)
    pair[0, 1, 0, 1] = 1.0
    with pytest.raises(ValueError, match="asymmetric: sites 0,1"):
        PairwiseField(torch.zeros(2, 2), pair)
    pair[1, 0, 1, 0] = 1.0
    with pytest.raises(ValueError, match="interact but are not in edges"):
        PairwiseField(torch.zeros(2, 2), pair, edges=[])
    with pytest.raises(ValueError, match=r"edge \(1, 0\)"):
        PairwiseField(torch.zeros(2, 2), pair, edges=[(1, 0)])
    with pytest.raises(ValueError, match="not finite"):
        PairwiseField(torch.full((2, 2), math.nan), pair)
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        dense_ising(2, 1, 1, 0).with_parameters(torch.zeros(4))
