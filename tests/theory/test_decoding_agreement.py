"""The plugin's decoding chains, with exact conditionals, have the laws that the theory computes."""

import pytest
import torch

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.chain import run_chain
from fairseq_gmlm.decoding.rejecters import passthrough
from fairseq_gmlm.decoding.remasking import Remasking
from fairseq_gmlm.decoding.state import Prediction, initial_state
from fairseq_gmlm.decoding.strategies.any_order import AnyOrder
from fairseq_gmlm.decoding.strategies.gibbs import Gibbs
from fairseq_gmlm.decoding.strategies.refine import Refine
from fairseq_gmlm.theory.chains import masked_product_matrix, synchronous_matrix
from fairseq_gmlm.theory.graphs import clique_ising
from fairseq_gmlm.theory.mask_laws import uniform_blocks
from fairseq_gmlm.theory.neural import exact_conditional

ROWS, MASK = 40_000, 2
MODEL = clique_ising([3], 0.4, 0.3)


class ExactModel:
    """Samples p(x_i | visible part) as a masked model would; a visible site is asked for itself."""

    def __init__(self):
        self.exact = exact_conditional(MODEL)
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, state, where, step):
        masked = state.tokens == MASK
        shown = state.tokens.masked_fill(masked, 0)
        laws = torch.stack(
            [self.exact(shown, masked | (torch.arange(3) == i))[:, i] for i in range(3)], 1
        )
        flat = laws.flatten(0, 1).exp()
        tokens = torch.multinomial(flat, 1, generator=self.generator).reshape(len(shown), 3)
        scores = laws.gather(-1, tokens[..., None]).squeeze(-1).float()
        return Prediction(tokens, scores, laws.amax(-1).float())


def start(draft):
    tokens = torch.tensor(draft).expand(ROWS, -1).clone()
    free = torch.ones(ROWS, 3, dtype=torch.bool)
    place = torch.arange(3).expand(ROWS, -1)
    return initial_state(tokens, free, place, CounterRNG(5, torch.arange(ROWS)))


def law_after(strategy, state, passes):
    result = run_chain(ExactModel(), state, strategy, passes, early_stop=False)
    return torch.bincount(MODEL.space.index(result.tokens), minlength=8) / ROWS


@pytest.mark.parametrize("block,passes", [(1, 4), (2, 1), (2, 3), (3, 1)])
def test_gibbs_is_the_masked_product_chain(block, passes):
    strategy = Gibbs(block)
    seen = law_after(strategy, strategy.from_draft(start([0, 0, 0]), MASK), passes)
    kernel = masked_product_matrix(MODEL, uniform_blocks(3, block))
    expected = torch.linalg.matrix_power(kernel, passes)[0]
    assert (seen - expected).abs().max() < 0.01


@pytest.mark.parametrize("passes", [1, 3])
def test_refinement_that_keeps_everything_is_the_synchronous_chain(passes):
    seen = law_after(Refine(Remasking(passthrough)), start([0, 0, 0]), passes)
    expected = torch.linalg.matrix_power(synchronous_matrix(MODEL), passes)[0]
    assert (seen - expected).abs().max() < 0.01


def test_any_order_with_exact_conditionals_samples_the_model():
    seen = law_after(AnyOrder(), start([MASK, MASK, MASK]), 3)
    assert (seen - MODEL.probabilities()).abs().max() < 0.01
