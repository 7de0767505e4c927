import itertools
import math

import pytest
import torch

from fairseq_gmlm.theory.sources import MarkovSource

INITIAL = [0.2, 0.5, 0.3]
TRANSITION = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]]


def test_log_probabilities_are_products_of_transitions():
    source = MarkovSource(INITIAL, TRANSITION)
    for x in itertools.product(range(3), repeat=3):
        expected = INITIAL[x[0]] * TRANSITION[x[0]][x[1]] * TRANSITION[x[1]][x[2]]
        found = source.log_probabilities(torch.tensor([x]))[0].item()
        assert found == pytest.approx(math.log(expected))


def test_as_field_is_the_same_law():
    source = MarkovSource(INITIAL, TRANSITION)
    field = source.as_field(4)
    expected = source.log_probabilities(field.space.states()).exp()
    assert torch.allclose(field.probabilities(), expected, atol=1e-12)


def test_samples_follow_the_law():
    source = MarkovSource(INITIAL, TRANSITION)
    drawn = source.sample(100_000, 3, torch.Generator().manual_seed(0))
    field = source.as_field(3)
    seen = torch.bincount(field.space.index(drawn), minlength=27) / 100_000
    assert (seen - field.probabilities()).abs().max() < 0.006


def test_random_sources_start_from_their_stationary_law():
    source = MarkovSource.random(5, 0.5, seed=3)
    assert torch.allclose(source.initial @ source.transition, source.initial, atol=1e-9)
    assert source.transition.equal(MarkovSource.random(5, 0.5, seed=3).transition)


def test_random_sources_leave_the_global_random_state_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    MarkovSource.random(3, 1.0, seed=5)
    assert torch.rand(1).equal(expected)


def test_bad_sources_are_named():
    with pytest.raises(ValueError, match="transition is not made of probabilities"):
        MarkovSource(INITIAL, [[1.0, 0.5, 0.5]] * 3)
    with pytest.raises(ValueError, match=r"expected \(A,\) and \(A, A\)"):
        MarkovSource(INITIAL, [[1.0, 0.0]] * 2)
    with pytest.raises(ValueError, match="zero probability"):
        MarkovSource([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]]).as_field(2)
