import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.theory.states import StateSpace, kl_divergence, total_variation


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(2, 4))
def test_numbers_and_states_are_inverse(num_sites, alphabet_size):
    space = StateSpace(num_sites, alphabet_size)
    assert space.index(space.states()).tolist() == list(range(alphabet_size**num_sites))


def test_site_zero_is_the_leading_digit():
    assert StateSpace(3).states()[4].tolist() == [1, 0, 0]


def test_block_offsets_run_over_the_fillings_in_order():
    space = StateSpace(4)
    assert space.block_offsets([0, 3]).tolist() == [0, 1, 8, 9]
    assert space.block_offsets([]).tolist() == [0]


def test_too_many_states_are_named():
    with pytest.raises(ValueError, match=r"too many states: 2\^17 = 131072"):
        StateSpace(17).states()


def test_sixteen_spins_can_be_enumerated():
    assert StateSpace(16).states().shape == (65536, 16)


@pytest.mark.parametrize("sites,symbols", [(0, 2), (3, 1)])
def test_empty_spaces_are_refused(sites, symbols):
    with pytest.raises(ValueError, match="at least 1 site"):
        StateSpace(sites, symbols)


@pytest.mark.parametrize(
    "states,message", [([[0, 1, 2]], "symbols run from 0 to 2"), ([[0, 1]], "have 2 sites")]
)
def test_bad_states_are_named(states, message):
    with pytest.raises(ValueError, match=message):
        StateSpace(3).index(torch.tensor(states))


def test_distances_of_two_coins():
    fair, biased = torch.tensor([0.5, 0.5]).double(), torch.tensor([0.75, 0.25]).double()
    assert total_variation(fair, biased).item() == 0.25
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert kl_divergence(biased, fair).item() == pytest.approx(expected)


def test_kl_is_infinite_where_mass_is_missed_and_finite_where_it_is_not_needed():
    certain, fair = torch.tensor([1.0, 0.0]).double(), torch.tensor([0.5, 0.5]).double()
    assert kl_divergence(fair, certain).item() == math.inf
    assert kl_divergence(certain, fair).item() == pytest.approx(math.log(2))
