import itertools

import ising_plain as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ising_strategies import ising_tables

from fairseq_gmlm.theory.chains import (
    block_gibbs_matrix,
    extremes,
    hitting_time,
    masked_product_matrix,
    mixing_steps,
    stationary_law,
    synchronous_matrix,
    total_variation_curve,
)
from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.graphs import clique_ising, dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import adaptive_blocks, uniform_blocks, uniform_sizes
from fairseq_gmlm.theory.states import total_variation

# The table of the notes' section 1.6: J, steps of k-Gibbs for k = 1, 2, 5, steps of the
# synchronous chain to its own law, its bias, bias of masked-product for k = 2, 5, exit probability.
TABLE = [
    (0.1, (18, 8, 1), 3, ".098", (".015", ".127"), ".92"),
    (0.3, (65, 25, 1), 14, ".127", (".020", ".394"), ".47"),
    (0.6, (1107, 374, 1), 562, ".105", (".010", ".465"), ".059"),
    (1.0, (103_987, 30_423, 1), 405_794, ".101", (".003", ".469"), ".0025"),
]


def printed(value, like):
    """Whether ``value`` rounds to the decimals of ``like``."""
    digits = len(like) - 1
    return f"{value:.{digits}f}".lstrip("0") == like


@pytest.mark.parametrize("coupling,gibbs,sync,sync_bias,product_bias,leave", TABLE)
def test_table_of_the_separation_construct(coupling, gibbs, sync, sync_bias, product_bias, leave):
    model = clique_ising([5], coupling, 0.2)
    truth, start = model.probabilities(), extremes(5)[0]
    for k, steps in zip((1, 2, 5), gibbs):
        kernel = block_gibbs_matrix(model, uniform_blocks(5, k))
        assert mixing_steps(kernel, start, 0.1, truth) == steps
        assert mixing_steps(kernel, start, 0.1) == steps
    kernel = synchronous_matrix(model)
    own = stationary_law(kernel)
    assert mixing_steps(kernel, start, 0.1, own) == sync
    assert printed(total_variation(own, truth).item(), sync_bias)
    assert printed(1 - kernel[0, 0].item(), leave)
    for k, expected in zip((2, 5), product_bias):
        own = stationary_law(masked_product_matrix(model, uniform_blocks(5, k)))
        assert printed(total_variation(own, truth).item(), expected)


@settings(deadline=None, max_examples=10)
@given(ising_tables(3, 3), st.integers(1, 3))
def test_block_kernels_are_the_definition(tables, k):
    model, law = IsingModel(*tables), plain.ising_law(*tables)
    blocks = list(itertools.combinations(range(3), k))
    for make, product in ((block_gibbs_matrix, False), (masked_product_matrix, True)):
        found = make(model, uniform_blocks(3, k))
        expected = torch.tensor(plain.kernel(law, 3, blocks, product), dtype=torch.double)
        assert torch.allclose(found, expected, atol=1e-12)


@settings(deadline=None, max_examples=10)
@given(ising_tables(3, 4))
def test_synchronous_kernel_is_the_definition(tables):
    n, law = len(tables[1]), plain.ising_law(*tables)
    found = synchronous_matrix(IsingModel(*tables))
    for x, y in itertools.product(range(2**n), repeat=2):
        before, after = plain.states(n)[x], plain.states(n)[y]
        expected = 1.0
        for i in range(n):
            expected *= plain.conditional(law, n, [i], before)[(after[i],)]
        assert found[x, y].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("model", [dense_ising(4, 0.8, 0.3, 0), dense_field(3, 3, 0.8, 0)])
def test_gibbs_is_reversible_with_respect_to_the_model(model):
    law = uniform_sizes(model.num_sites)
    kernel, q = block_gibbs_matrix(model, law), model.probabilities()
    flow = q[:, None] * kernel
    assert torch.allclose(flow, flow.T, atol=1e-14)
    assert torch.allclose(kernel.sum(1), torch.ones(len(q)).double())
    assert torch.allclose(stationary_law(kernel), q, atol=1e-12)


def test_adaptive_gibbs_keeps_the_model():
    model = dense_ising(3, 0.6, 0.3, 0)
    law = adaptive_blocks(
        model.space,
        [[0, 1], [1, 2], [0]],
        lambda x: 1.0 * torch.stack([x[:, 0], x[:, 1], x[:, 2]], 1),
    )
    kernel = block_gibbs_matrix(model, law)
    assert torch.allclose(stationary_law(kernel), model.probabilities(), atol=1e-12)


def test_one_site_at_a_time_there_is_nothing_to_be_independent_of():
    model, law = dense_ising(4, 0.8, 0.3, 0), uniform_blocks(4, 1)
    assert torch.allclose(block_gibbs_matrix(model, law), masked_product_matrix(model, law))


def test_full_blocks_sample_the_model_or_its_margins():
    model, law = dense_ising(3, 0.8, 0.3, 0), uniform_blocks(3, 3)
    q = model.probabilities()
    assert torch.allclose(block_gibbs_matrix(model, law), q.expand(8, 8), atol=1e-12)
    margins = q @ model.space.states().double()
    states = model.space.states()
    product = torch.where(states == 1, margins, 1 - margins).prod(1)
    assert torch.allclose(masked_product_matrix(model, law)[0], product, atol=1e-12)


def random_kernel(seed, size=6):
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(3 * torch.randn(size, size, generator=generator, dtype=torch.double), 1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.floats(0.001, 0.5))
def test_mixing_steps_are_those_of_a_loop(seed, tolerance):
    kernel = random_kernel(seed)
    law, target = torch.zeros(6).double(), stationary_law(kernel)
    law[0] = 1
    assert torch.allclose(target @ kernel, target, atol=1e-12)
    found, steps, current = mixing_steps(kernel, law, tolerance), 0, law
    while total_variation(current, target) > tolerance:
        current, steps = current @ kernel, steps + 1
    assert found == steps


def test_curves_are_those_of_a_loop():
    kernel, law = random_kernel(3), torch.full((6,), 1 / 6, dtype=torch.double)
    target = stationary_law(kernel)
    found = total_variation_curve(kernel, law, target, [0, 1, 2, 7, 20])
    for steps, value in zip((0, 1, 2, 7, 20), found):
        expected = total_variation(law @ torch.linalg.matrix_power(kernel, steps), target)
        assert value.item() == pytest.approx(expected.item(), abs=1e-12)


def test_hitting_times_solve_their_equations():
    kernel = random_kernel(5)
    goal = torch.tensor([False, False, False, False, True, True])
    inner = torch.eye(4).double() - kernel[:4, :4]
    expected = torch.linalg.solve(inner, torch.ones(4).double())
    for start in range(4):
        assert hitting_time(kernel, start, goal) == pytest.approx(expected[start].item())
    assert hitting_time(kernel, 5, goal) == 0


def test_escape_is_exponential_in_the_coupling():
    goal = torch.arange(32) == 31
    times = []
    for coupling in (1.0, 2.0, 3.0):
        kernel = synchronous_matrix(clique_ising([5], coupling, 0.2))
        times.append(hitting_time(kernel, 0, goal))
    assert times[1] / times[0] > 1000 and times[2] / times[1] > 1000
    exact = block_gibbs_matrix(clique_ising([5], 3.0, 0.2), uniform_blocks(5, 5))
    assert hitting_time(exact, 0, goal) < 2


def test_a_reducible_chain_is_refused():
    with pytest.raises(ValueError, match="reducible"):
        stationary_law(torch.eye(3).double())


def test_a_chain_that_never_arrives_is_refused():
    flip = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    with pytest.raises(ValueError, match="not reached in 2"):
        mixing_steps(flip, torch.tensor([1.0, 0.0]).double(), 0.1)


@pytest.mark.parametrize("make", [block_gibbs_matrix, masked_product_matrix])
def test_too_many_states_are_named(make):
    with pytest.raises(ValueError, match=r"too many states: 2\^13 = 8192"):
        make(clique_ising([13], 0.1), uniform_blocks(13, 1))
