import math

import ising_plain as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.theory.constants import (
    EntropyRatio,
    entropy_constant,
    entropy_upper_bound,
    poincare_constant,
)
from fairseq_gmlm.theory.graphs import clique_ising, dense_field, dense_ising
from fairseq_gmlm.theory.mask_laws import (
    adaptive_blocks,
    bernoulli_mask,
    listed_blocks,
    uniform_blocks,
)


def test_poincare_constants_of_the_reference(reference, reference_model):
    for k, expected in enumerate(reference["poincare_constant"], 1):
        found = poincare_constant(reference_model, uniform_blocks(5, k))
        assert found == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(0, 1000))
def test_poincare_inequality_holds_for_any_function(seed, k, direction):
    model, law = dense_ising(4, 0.7, 0.3, seed), uniform_blocks(4, k)
    f = torch.randn(16, generator=torch.Generator().manual_seed(direction)).tolist()
    q = model.probabilities().tolist()
    mean = sum(p * v for p, v in zip(q, f))
    variance = sum(p * (v - mean) ** 2 for p, v in zip(q, f))
    local, states = 0.0, plain.states(4)
    for block in law.sites:
        for p, x, v in zip(q, states, f):
            table = plain.conditional(q, 4, block, x)
            inner = 0.0
            for filling, weight in table.items():
                y = list(x)
                for site, symbol in zip(block, filling):
                    y[site] = symbol
                inner += weight * f[states.index(tuple(y))]
            local += p * (v - inner) ** 2 / len(law.sites)
    assert variance <= poincare_constant(model, law) * local + 1e-9


def test_product_laws_have_n_over_k():
    model = clique_ising([3], 0.0, 0.4)
    for k in (1, 2, 3):
        found = entropy_constant(model, uniform_blocks(3, k))
        assert found.lower == pytest.approx(3 / k, rel=1e-4)
        assert found.upper == pytest.approx(3 / k, rel=1e-9)
        assert poincare_constant(model, uniform_blocks(3, k)) == pytest.approx(3 / k)


@pytest.mark.parametrize(
    "coupling,first,second", [(0.3, "6.48", "2.37"), (0.8, "38.3", "10.3"), (1.5, "607", "152")]
)
def test_entropy_constants_of_the_three_spin_ferromagnet(coupling, first, second):
    """Notes, 1.3: C(1) and C(2) to the printed digits, C(3) = 1."""
    model = clique_ising([3], coupling)
    one, two, three = (entropy_constant(model, uniform_blocks(3, k)) for k in (1, 2, 3))
    assert f"{one.lower:.3g}" == first
    assert f"{two.lower:.3g}" == second
    assert (three.lower, three.upper) == (pytest.approx(1), 1)
    assert one.upper > one.lower and two.upper > two.lower


def test_bounds_are_ordered_and_the_constant_falls_with_k(reference_model):
    found = [entropy_constant(reference_model, uniform_blocks(5, k), starts=1) for k in (1, 2, 4)]
    for k, entropy in zip((1, 2, 4), found):
        poincare = poincare_constant(reference_model, uniform_blocks(5, k))
        assert poincare <= entropy.lower * (1 + 1e-9) and entropy.lower <= entropy.upper
    assert found[0].lower > found[1].lower > found[2].lower


def test_the_witness_certifies_the_lower_bound(reference_model):
    """KL(r || q) over the mean block KL, by definition and loops, is the bound reported."""
    law = uniform_blocks(5, 2)
    found = entropy_constant(reference_model, law, starts=1)
    q, r = reference_model.probabilities().tolist(), found.witness.tolist()
    local = 0.0
    for block in law.sites:
        for p, x in zip(r, plain.states(5)):
            ours, theirs = (plain.conditional(side, 5, block, x) for side in (r, q))
            filling = tuple(x[i] for i in block)
            local += p * math.log(ours[filling] / theirs[filling]) / len(law.sites)
    assert plain.kl(r, q) / local == pytest.approx(found.lower, rel=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 500), st.integers(0, 500))
def test_the_upper_bound_holds_for_random_laws(seed, direction):
    model, law = dense_ising(3, 0.6, 0.3, seed), bernoulli_mask(3, 0.5)
    generator = torch.Generator().manual_seed(direction)
    log_r = 2 * torch.randn(8, generator=generator, dtype=torch.double)
    whole, inside = EntropyRatio(model, law)(log_r)
    upper, _ = entropy_upper_bound(model, law, poincare_constant(model, law))
    assert whole <= upper * inside + 1e-12


def test_blocks_that_follow_the_cliques_do_not_feel_the_coupling():
    law = listed_blocks(6, [range(3), range(3, 6)])
    for coupling in (0.2, 1.0):
        model = clique_ising([3, 3], coupling, 0.2)
        assert poincare_constant(model, law) == pytest.approx(2)
        assert entropy_constant(model, law, starts=0).lower == pytest.approx(2, rel=1e-3)
    assert poincare_constant(model, uniform_blocks(6, 3)) > 10


def test_adaptive_laws_have_constants_too():
    model = dense_field(3, 3, 0.5, 0)
    law = adaptive_blocks(
        model.space,
        [[0, 1], [1, 2], [0, 2]],
        lambda x: 1.0 * torch.stack([x[:, 0], x[:, 1], x[:, 2]], 1),
    )
    found = entropy_constant(model, law, starts=1)
    assert 1 <= poincare_constant(model, law) <= found.lower * (1 + 1e-9) <= found.upper


def test_a_site_never_masked_has_no_constant():
    model, law = dense_ising(3, 0.5, 0.3, 0), listed_blocks(3, [[0], [1]])
    assert poincare_constant(model, law) == math.inf
    assert entropy_constant(model, law).lower == math.inf


def test_too_many_states_are_named():
    with pytest.raises(ValueError, match=r"too many states: 2\^13"):
        poincare_constant(clique_ising([13], 0.1), uniform_blocks(13, 1))
