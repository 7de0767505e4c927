"""Learned conditionals against exact ones: errors, kernels and stationary laws.

A masked model enters as any callable ``conditional(tokens, hidden)`` that takes symbols
``(R, N)`` and a mask ``(R, N)`` (True where the symbol must not be looked at) and returns
log-probabilities ``(R, N, A)``, of which only those of hidden sites are read.
"""

from typing import Callable, Dict, List

import torch
from torch import BoolTensor, LongTensor, Tensor

from fairseq_gmlm.theory.chains import MAX_MATRIX_STATES, block_matrix, product_matrix
from fairseq_gmlm.theory.conditionals import (
    ConditionalTable,
    conditional_tables,
    site_view,
)
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.states import StateSpace, kl_divergence

Conditional = Callable[[LongTensor, BoolTensor], Tensor]


def exact_conditional(model: PairwiseField) -> Conditional:
    """The callable that a perfect masked model would be: log q(x_i | visible part)."""
    states, log_q = model.space.states(), model.log_probabilities()

    def conditional(tokens: LongTensor, hidden: BoolTensor) -> Tensor:
        agree = ((states[None] == tokens[:, None]) | hidden[:, None]).all(-1)  # (R, S)
        inside = log_q.masked_fill(~agree, -torch.inf)
        answers = []
        for symbol in range(model.alphabet_size):
            mine = inside[:, :, None].masked_fill(states != symbol, -torch.inf)
            answers.append(mine.logsumexp(1))
        return torch.log_softmax(torch.stack(answers, -1), -1)

    return conditional


def site_laws(conditional: Conditional, space: StateSpace, table: ConditionalTable) -> Tensor:
    """Answers on every row of a table: laws of the block's sites, ``(R, k, A)``.

    Raises:
        ValueError: answers of another shape, or not log-probabilities.
    """
    tokens = space.states()[table.states[:, 0]]
    # The block's sites are those whose symbol differs between the first and the last filling.
    hidden = tokens != space.states()[table.states[:, -1]]
    answers = conditional(tokens, hidden).double()
    expected = (*tokens.shape, space.alphabet_size)
    if answers.shape != expected:
        raise ValueError(f"conditional answered {tuple(answers.shape)}, expected {expected}")
    laws = answers[hidden].exp().reshape(len(tokens), table.size, space.alphabet_size)
    if not torch.isfinite(laws).all() or (laws.sum(-1) - 1).abs().max() > 1e-4:
        raise ValueError("conditional did not answer log-probabilities that sum to 1")
    return laws / laws.sum(-1, keepdim=True)


def conditional_error(
    conditional: Conditional, truth: PairwiseField, law: MaskLaw
) -> Dict[int, float]:
    """Mean KL(q(x_i | x_-K) || answer) in nats a hidden token, by block size.

    Blocks of one size weigh as in ``law``, visible parts as under ``truth``.
    """
    space, q = truth.space, truth.probabilities()
    errors = {}
    for table in conditional_tables(space, law):
        if table.size == 0:
            continue
        weights = table.joint_weights(law, q)
        mass = weights.sum(1)
        answers = site_laws(conditional, space, table)
        total = 0.0
        for position in range(table.size):
            exact = site_view(weights, table.size, position, space.alphabet_size).sum(-1)
            off = kl_divergence(exact / mass[:, None], answers[:, position])
            total += (mass * off).sum().item()
        errors[table.size] = total / (table.size * mass.sum().item())
    return errors


def masked_product_kernel(conditional: Conditional, space: StateSpace, law: MaskLaw) -> Tensor:
    """The masked-product chain of a learned model, ``(S, S)`` (ValueError beyond 2^12 states)."""
    tables = _enumerable_tables(space, law)
    return block_matrix(
        law,
        space.num_states,
        tables,
        [_product(site_laws(conditional, space, table)) for table in tables],
    )


def block_gibbs_kernel(conditional: Conditional, space: StateSpace, law: MaskLaw) -> Tensor:
    """Block Gibbs of a learned model, whose blocks are filled one site after the other, (S, S).

    Left to right, each site given the visible part and the block's sites already filled: the
    chain rule makes a joint block law out of product conditionals, for k passes a step. With a
    block of all sites each step is one any-order generation from nothing.

    Raises:
        ValueError: more than 2^12 states.
    """
    tables = _enumerable_tables(space, law)
    rows = []
    for table in tables:
        filled = torch.ones(len(table.states), 1).double()
        for position in range(table.size):
            # One query for each prefix of the block: the sites from this position on are hidden.
            width = space.alphabet_size ** (table.size - position)
            narrow = ConditionalTable(
                table.size - position,
                table.block.repeat_interleave(filled.shape[1]),
                table.states.reshape(-1, width),
            )
            first = site_laws(conditional, space, narrow)[:, 0]
            filled = (filled.flatten()[:, None] * first).reshape(len(table.states), -1)
        rows.append(filled)
    return block_matrix(law, space.num_states, tables, rows)


def synchronous_kernel(conditional: Conditional, space: StateSpace) -> Tensor:
    """The synchronous chain: every site at once, each asked with only itself hidden, (S, S).

    Raises:
        ValueError: more than 2^12 states.
    """
    space.require_enumerable(MAX_MATRIX_STATES)
    states = space.states()
    answers: List[Tensor] = []
    for site in range(space.num_sites):
        hidden = torch.zeros(states.shape, dtype=torch.bool)
        hidden[:, site] = True
        answers.append(torch.log_softmax(conditional(states, hidden)[:, site].double(), -1))
    return product_matrix(torch.stack(answers, 1))


def _enumerable_tables(space: StateSpace, law: MaskLaw) -> List[ConditionalTable]:
    space.require_enumerable(MAX_MATRIX_STATES)
    return conditional_tables(space, law)


def _product(laws: Tensor) -> Tensor:
    product = torch.ones(len(laws), 1).double()
    for position in range(laws.shape[1]):
        product = (product[:, :, None] * laws[:, position, None]).flatten(1)
    return product
