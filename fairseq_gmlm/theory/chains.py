"""Exact chains on enumerated states: kernels, stationary laws, mixing and hitting times.

Notes, section 1.6. Of the plugin's decoding strategies, ``gibbs`` with blocks of k sampled
tokens is the masked-product chain (at k = 1 also block Gibbs), and ``refine`` without remasking,
started from any draft and sampling, is a synchronous chain whose model also sees the token that
it replaces.
"""

from typing import List, Optional, Tuple

import torch
from torch import BoolTensor, Tensor

from fairseq_gmlm.theory.conditionals import (
    ConditionalTable,
    conditional_tables,
    product_conditionals,
)
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.states import total_variation

MAX_MATRIX_STATES = 2**12
MAX_STEPS_LOG2 = 60


def block_gibbs_matrix(model: PairwiseField, law: MaskLaw) -> Tensor:
    """k-Gibbs ("dependent"): draw K, resample x_K jointly from q(. | x_-K, K); ``(S, S)``.

    Reversible with respect to q, also for an adaptive law (whose conditional includes K).

    Raises:
        ValueError: more than 2^12 states, or a law of another length.
    """
    return _block_matrix(model, law, product=False)


def masked_product_matrix(model: PairwiseField, law: MaskLaw) -> Tensor:
    """Masked-product: draw K, resample each x_i of it from q(x_i | x_-K) alone; ``(S, S)``.

    Raises:
        ValueError: more than 2^12 states, or a law of another length.
    """
    return _block_matrix(model, law, product=True)


def _block_matrix(model: PairwiseField, law: MaskLaw, product: bool) -> Tensor:
    space = model.space
    space.require_enumerable(MAX_MATRIX_STATES)
    q = model.probabilities()
    tables = conditional_tables(space, law)
    rows = []
    for table in tables:
        weights = table.joint_weights(law, q)
        inside = weights / weights.sum(1, keepdim=True).clamp_min(1e-300)
        if product:
            inside = product_conditionals(inside, table.size, space.alphabet_size)
        rows.append(inside)
    return block_matrix(law, space.num_states, tables, rows)


def block_matrix(
    law: MaskLaw, num_states: int, tables: List[ConditionalTable], rows: List[Tensor]
) -> Tensor:
    """The kernel "draw K given the state, then x_K from the row of (K, x_-K)", ``(S, S)``.

    Args:
        tables: as ``conditional_tables`` gives them.
        rows: for each table, the laws ``(R, A ** k)`` of the new filling.
    """
    mask_table = law.table(num_states)
    matrix = torch.zeros(num_states * num_states).double()
    for table, inside in zip(tables, rows):
        chosen = mask_table[table.states, table.block[:, None]]  # p(K | from)
        step = max(1, 2**22 // table.states.shape[1] ** 2)
        for start in range(0, len(inside), step):
            cut = slice(start, start + step)
            states = table.states[cut]
            places = states[:, :, None] * num_states + states[:, None, :]
            moves = chosen[cut][:, :, None] * inside[cut][:, None, :]
            matrix.index_add_(0, places.flatten(), moves.flatten())
    return matrix.reshape(num_states, num_states)


def synchronous_matrix(model: PairwiseField) -> Tensor:
    """Synchronous (Jacobi): all sites at once, each from q(x_i | x_-i) of the old state; (S, S).

    Raises:
        ValueError: more than 2^12 states.
    """
    space = model.space
    space.require_enumerable(MAX_MATRIX_STATES)
    return product_matrix(torch.log_softmax(model.local_logits(space.states()), -1))


def product_matrix(log_conditionals: Tensor) -> Tensor:
    """The kernel that draws every site on its own: ``(R, N, A)`` log-laws to ``(R, A ** N)``."""
    matrix = torch.zeros(len(log_conditionals), 1).double()
    for site in range(log_conditionals.shape[1]):
        matrix = (matrix[:, :, None] + log_conditionals[:, None, site]).flatten(1)
    return matrix.exp()


def stationary_law(matrix: Tensor) -> Tensor:
    """Stationary law ``(S,)`` of an irreducible ``matrix (S, S)``.

    State reduction (Grassmann, Taksar, Heyman): no subtraction, so escape probabilities of
    1e-12 do no harm.

    Raises:
        ValueError: the chain is reducible.
    """
    work = matrix.double().clone().numpy()  # numpy: a third of torch's cost for small steps
    for last in range(len(work) - 1, 0, -1):
        out = work[last, :last].sum()
        if out <= 0:
            raise ValueError(f"the chain is reducible: state {last} never reaches a lower one")
        work[:last, last] /= out
        work[:last, :last] += work[:last, last, None] * work[last, None, :last]
    law = torch.zeros(len(work)).double().numpy()
    law[0] = 1.0
    for state in range(1, len(work)):
        law[state] = law[:state] @ work[:state, state]
    return torch.from_numpy(law / law.sum())


def mixing_steps(
    matrix: Tensor, start: Tensor, tolerance: float, target: Optional[Tensor] = None
) -> int:
    """First step at which the law of the chain is within ``tolerance`` of ``target`` in TV.

    Repeated squaring, then bisection from the largest power down: the distance to a stationary
    law never grows, so a chain of 400,000 steps takes forty products.

    Args:
        matrix: ``(S, S)``.
        start: law ``(S,)`` of the first state.
        tolerance: between 0 and 1.
        target: stationary law ``(S,)``; computed when None.

    Raises:
        ValueError: not reached in 2^60 steps.
    """
    target = stationary_law(matrix) if target is None else target
    if total_variation(start, target) <= tolerance:
        return 0
    powers: List[Tensor] = [matrix]
    while total_variation(start @ powers[-1], target) > tolerance:
        if len(powers) > MAX_STEPS_LOG2:
            raise ValueError(f"total variation {tolerance} is not reached in 2^60 steps")
        powers.append(_squared(powers[-1]))
    law, steps = start, 0
    for exponent in range(len(powers) - 2, -1, -1):
        further = law @ powers[exponent]
        if total_variation(further, target) > tolerance:
            law, steps = further, steps + 2**exponent
    return steps + 1


def total_variation_curve(
    matrix: Tensor, start: Tensor, target: Tensor, steps: List[int]
) -> Tensor:
    """TV to ``target`` after each of ``steps`` (increasing), ``(len(steps),)``."""
    powers: List[Tensor] = [matrix]
    law, done, curve = start, 0, []
    for step in steps:
        remaining = step - done
        for bit in range(remaining.bit_length()):
            while len(powers) <= bit:
                powers.append(_squared(powers[-1]))
            if remaining >> bit & 1:
                law = law @ powers[bit]
        done = step
        curve.append(total_variation(law, target))
    return torch.stack(curve)


def _squared(matrix: Tensor) -> Tensor:
    square = matrix @ matrix
    # Rows drift from 1 by rounding, and the drift doubles with every squaring.
    return square / square.sum(1, keepdim=True)


def hitting_time(matrix: Tensor, start: int, goal: BoolTensor) -> float:
    """Expected steps from state ``start`` to a state of ``goal (S,)``.

    By state reduction, so that times of 1e12 keep their digits.
    """
    if bool(goal[start]):
        return 0.0
    inner = (~goal).nonzero()[:, 0].tolist()
    inner.remove(start)
    order = torch.tensor([start, *inner])
    work = matrix[order][:, order].clone().numpy()
    leave = matrix[order][:, goal].sum(1).numpy()
    cost = torch.ones(len(order)).double().numpy()
    for last in range(len(order) - 1, 0, -1):
        out = work[last, :last].sum() + leave[last]
        share = work[:last, last] / out
        cost[:last] += share * cost[last]
        leave[:last] += share * leave[last]
        work[:last, :last] += share[:, None] * work[last, None, :last]
    return float(cost[0] / leave[0])


def extremes(num_sites: int, alphabet_size: int = 2) -> Tuple[Tensor, int, int]:
    """The law ``(S,)`` on "all symbols 0" (all minus), its number, and that of "all last"."""
    count = alphabet_size**num_sites
    start = torch.zeros(count).double()
    start[0] = 1.0
    return start, 0, count - 1
