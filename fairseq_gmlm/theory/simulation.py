"""Vectorised chains on models too large to enumerate: hundreds of sites, many rows at once.

The exact kernels of ``chains`` are these, state by state; here a row is one chain.
"""

from typing import Callable, Optional

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.conditionals import product_conditionals
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.states import StateSpace

Step = Callable[[LongTensor, torch.Generator], LongTensor]
MAX_BLOCK_FILLINGS = 2**12


def block_step(
    model: PairwiseField,
    size: int,
    product: bool = False,
    blocks: Optional[LongTensor] = None,
) -> Step:
    """One step of k-Gibbs, or of the masked-product chain, for ``(R, N)`` rows.

    Each row draws a block of its own: uniform of ``size`` sites, or uniform among ``blocks``.

    Args:
        product: draw each site of the block from its own marginal.
        blocks: ``(M, size)`` sites, when the blocks are to follow the dependencies.

    Raises:
        ValueError: size out of range or blocks of another size, or more than 2^12 fillings of a
            block (the block's joint law is enumerated).
    """
    n, a = model.num_sites, model.alphabet_size
    if not 1 <= size <= n:
        raise ValueError(f"block size k={size} is out of range: choose 1 to {n}")
    if blocks is not None and blocks.shape[1] != size:
        raise ValueError(f"blocks have {blocks.shape[1]} sites, expected size={size}")
    if a**size > MAX_BLOCK_FILLINGS:
        raise ValueError(
            f"too many states: {a}^{size} fillings of a block, at most {MAX_BLOCK_FILLINGS}"
        )
    fillings = StateSpace(size, a).states()

    def step(states: LongTensor, generator: torch.Generator) -> LongTensor:
        rows = len(states)
        if blocks is None:
            # The first k of a random order of the sites, row by row.
            chosen = torch.rand(rows, n, generator=generator).topk(size, dim=1).indices
        else:
            chosen = blocks[torch.randint(len(blocks), (rows,), generator=generator)]
        law = model.block_log_conditionals(states, chosen).exp()
        if product:
            law = product_conditionals(law, size, a)
        drawn = torch.multinomial(law, 1, generator=generator)[:, 0]
        return states.scatter(1, chosen, fillings[drawn])

    return step


def synchronous_step(model: PairwiseField) -> Step:
    """One synchronous (Jacobi) step: every site from its conditional in the old state."""

    def step(states: LongTensor, generator: torch.Generator) -> LongTensor:
        laws = torch.softmax(model.local_logits(states), -1)
        drawn = torch.multinomial(laws.flatten(0, 1), 1, generator=generator)
        return drawn.reshape(states.shape)

    return step


def simulate(
    step: Step,
    start: LongTensor,
    steps: int,
    generator: torch.Generator,
    observe: Callable[[LongTensor], Tensor],
) -> Tensor:
    """Run rows ``start (R, N)`` and record ``observe(states)`` at times 0 .. ``steps``.

    Returns:
        ``(steps + 1, ...)`` stacked observations.
    """
    states = start
    seen = [observe(states)]
    for _ in range(steps):
        states = step(states, generator)
        seen.append(observe(states))
    return torch.stack(seen)


def first_passage(
    step: Step,
    start: LongTensor,
    reached: Callable[[LongTensor], Tensor],
    max_steps: int,
    generator: torch.Generator,
) -> LongTensor:
    """Steps ``(R,)`` until ``reached(states)`` (a bool for each row); -1 where it never was.

    Rows that arrived are dropped, so the cost follows the slow ones.
    """
    times = torch.full((len(start),), -1)
    alive = torch.arange(len(start))
    states = start
    for time in range(max_steps + 1):
        done = reached(states)
        times[alive[done]] = time
        alive, states = alive[~done], states[~done]
        if not len(alive) or time == max_steps:
            break
        states = step(states, generator)
    return times


def spins(states: LongTensor) -> Tensor:
    """Symbols 0, 1 as -1, +1."""
    return states.double() * 2 - 1
