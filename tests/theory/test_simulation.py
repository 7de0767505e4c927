import pytest
import torch

from fairseq_gmlm.theory.chains import (
    block_gibbs_matrix,
    hitting_time,
    masked_product_matrix,
    synchronous_matrix,
)
from fairseq_gmlm.theory.graphs import clique_ising, dense_field, dense_ising, grid_ising
from fairseq_gmlm.theory.mask_laws import listed_blocks, uniform_blocks
from fairseq_gmlm.theory.simulation import (
    block_step,
    first_passage,
    simulate,
    spins,
    synchronous_step,
)

ISING, FIELD = dense_ising(4, 0.7, 0.3, 0), dense_field(3, 3, 0.7, 0)
CASES = [
    (ISING, block_step(ISING, 2), block_gibbs_matrix(ISING, uniform_blocks(4, 2))),
    (ISING, block_step(ISING, 3, True), masked_product_matrix(ISING, uniform_blocks(4, 3))),
    (FIELD, block_step(FIELD, 2, True), masked_product_matrix(FIELD, uniform_blocks(3, 2))),
    (ISING, synchronous_step(ISING), synchronous_matrix(ISING)),
    (FIELD, synchronous_step(FIELD), synchronous_matrix(FIELD)),
    (
        ISING,
        block_step(ISING, 2, blocks=torch.tensor([[3, 0], [1, 2]])),
        block_gibbs_matrix(ISING, listed_blocks(4, [[0, 3], [1, 2]])),
    ),
]


@pytest.mark.parametrize("model,step,kernel", CASES)
def test_one_step_has_the_exact_law(model, step, kernel):
    rows, start = 60_000, model.space.states()[5]
    after = step(start.expand(rows, -1), torch.Generator().manual_seed(0))
    seen = torch.bincount(model.space.index(after), minlength=len(kernel)) / rows
    assert (seen - kernel[5]).abs().max() < 0.008  # four standard errors at most


def test_first_passage_agrees_with_the_exact_time():
    model = clique_ising([3], 0.3, 0.2)
    goal = torch.arange(8) == 7
    exact = hitting_time(synchronous_matrix(model), 0, goal)
    times = first_passage(
        synchronous_step(model),
        torch.zeros(5000, 3, dtype=torch.long),
        lambda states: states.all(1),
        10_000,
        torch.Generator().manual_seed(0),
    )
    assert (times >= 3 // 3).all()
    assert times.double().mean().item() == pytest.approx(exact, rel=0.06)


def test_rows_that_never_arrive_say_so():
    times = first_passage(
        lambda states, generator: states,
        torch.tensor([[0, 0], [1, 1]]),
        lambda states: states.all(1),
        3,
        torch.Generator(),
    )
    assert times.tolist() == [-1, 0]


def test_hundreds_of_sites_without_enumeration():
    """High temperature, no field: spins are centred and neighbours correlate as tanh(J), nearly."""
    model = grid_ising(15, 20, 0.1)
    start = torch.ones(32, 300, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    step = synchronous_step(model)
    means = simulate(step, start, 30, generator, lambda states: spins(states).mean())
    assert means.shape == (31,) and means[0] == 1
    assert means[-1].abs() < 0.08
    gibbs = block_step(model, 4)
    assert gibbs(start, generator).shape == (32, 300)


def test_a_block_step_changes_its_block_alone():
    model = grid_ising(10, 10, 0.3)
    start = torch.zeros(50, 100, dtype=torch.long)
    after = block_step(model, 6)(start, torch.Generator().manual_seed(1))
    assert ((after != start).sum(1) <= 6).all() and (after != start).any()


def test_bad_blocks_are_named():
    with pytest.raises(ValueError, match="k=5 is out of range: choose 1 to 4"):
        block_step(ISING, 5)
    with pytest.raises(ValueError, match="blocks have 2 sites, expected size=3"):
        block_step(ISING, 3, blocks=torch.tensor([[0, 1]]))
    with pytest.raises(ValueError, match=r"2\^13 fillings"):
        block_step(grid_ising(4, 4, 0.1), 13)
