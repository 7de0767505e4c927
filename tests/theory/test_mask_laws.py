import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.theory.mask_laws import (
    MaskLaw,
    adaptive_blocks,
    bernoulli_mask,
    listed_blocks,
    uniform_blocks,
    uniform_sizes,
)
from fairseq_gmlm.theory.states import StateSpace


@settings(deadline=None)
@given(st.integers(1, 7), st.data())
def test_uniform_blocks_are_all_blocks_of_their_size(n, data):
    k = data.draw(st.integers(1, n))
    law = uniform_blocks(n, k)
    assert len(law.sites) == math.comb(n, k)
    assert (law.blocks.sum(1) == k).all()
    assert law.probabilities.tolist() == pytest.approx([1 / math.comb(n, k)] * len(law.sites))


def test_uniform_sizes_has_every_size_alike():
    law = uniform_sizes(5)
    sizes = law.blocks.sum(1)
    for k in range(1, 6):
        assert law.probabilities[sizes == k].sum().item() == pytest.approx(0.2)


def test_bernoulli_masks_each_site_on_its_own():
    law = bernoulli_mask(4, 0.3)
    assert (law.probabilities @ law.blocks.double()).tolist() == pytest.approx([0.3] * 4)
    assert law.probabilities[~law.blocks.any(1)].item() == pytest.approx(0.7**4)


def test_draws_follow_the_law():
    law = listed_blocks(3, [[0], [1, 2]], torch.tensor([0.25, 0.75]))
    drawn = law.sample(torch.zeros(40_000, dtype=torch.long), 2, torch.Generator().manual_seed(0))
    assert drawn.shape == (40_000, 2)
    assert abs(drawn.double().mean().item() - 0.75) < 0.01


def test_adaptive_draws_look_at_the_state():
    space = StateSpace(2)
    # Site 0 is masked for sure where x_1 is 1, else site 1.
    law = adaptive_blocks(
        space, [[0], [1]], lambda x: torch.stack([99.0 * x[:, 1], 0 * x[:, 1] + 9], 1)
    )
    drawn = law.sample(torch.tensor([0, 1, 2, 3]), 1, torch.Generator().manual_seed(0))
    assert drawn[:, 0].tolist() == [1, 0, 1, 0]


def test_dependence_on_the_hidden_part_is_found():
    space = StateSpace(3)
    visible = adaptive_blocks(
        space, [[0], [1]], lambda x: torch.stack([2.0 * x[:, 2], 0.0 * x[:, 2]], 1)
    )
    assert not visible.depends_on_hidden(space)
    hidden = adaptive_blocks(
        space, [[0], [1]], lambda x: torch.stack([1.0 * x[:, 0], 0.0 * x[:, 0]], 1)
    )
    assert hidden.depends_on_hidden(space)
    assert not uniform_blocks(3, 2).depends_on_hidden(space)


def test_coverage():
    assert uniform_blocks(3, 1).covers()
    assert not listed_blocks(3, [[0], [1]]).covers()


@pytest.mark.parametrize("k", [0, 6, -1])
def test_block_size_out_of_range_is_named(k):
    with pytest.raises(ValueError, match=f"k={k} is out of range: choose 1 to 5"):
        uniform_blocks(5, k)


def test_bad_laws_are_named():
    with pytest.raises(ValueError, match=r"ratio 1\.0 is out of range"):
        bernoulli_mask(3, 1.0)
    with pytest.raises(ValueError, match="site 3 of block 1"):
        listed_blocks(3, [[0], [3]])
    with pytest.raises(ValueError, match="no block is listed"):
        listed_blocks(3, [])
    with pytest.raises(ValueError, match="listed twice"):
        listed_blocks(3, [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="sum to 1"):
        listed_blocks(3, [[0], [1]], torch.tensor([0.5, 0.6]))
    with pytest.raises(ValueError, match="expected"):
        MaskLaw(torch.ones(2, 3, dtype=torch.bool), torch.ones(3) / 3)
    law = adaptive_blocks(StateSpace(2), [[0], [1]], lambda x: torch.zeros(len(x), 2))
    with pytest.raises(ValueError, match="has 4 states, the model 8"):
        law.table(8)
