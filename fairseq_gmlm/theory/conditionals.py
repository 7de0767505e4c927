"""Exact block conditionals, gathered by visible part: the table that the rest is computed from."""

from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.states import StateSpace

# Above this many (block, state) pairs the tables would not fit in the memory of a laptop.
MAX_PAIRS = 2**26


@dataclass
class ConditionalTable:
    """All (block, visible part) rows of blocks of one size k.

    Attributes:
        size: k.
        block: ``(R,)`` number of the row's block in its law.
        states: ``(R, A ** k)`` numbers of the states that share the row's visible part, ordered
            by the filling of the block (its first site is the leading digit).
    """

    size: int
    block: LongTensor
    states: LongTensor

    def log_mask_probabilities(self, law: MaskLaw, num_states: int) -> Optional[Tensor]:
        """log p(K | x) on the entries ``(R, A ** k)``; None when it does not depend on x."""
        if not law.adaptive:
            return None
        return law.table(num_states)[self.states, self.block[:, None]].log()

    def joint_weights(self, law: MaskLaw, probabilities: Tensor) -> Tensor:
        """q(x) p(K | x) on the entries, ``(R, A ** k)``; all tables together sum to 1."""
        masks = law.table(len(probabilities))[self.states, self.block[:, None]]
        return probabilities[self.states] * masks


def conditional_tables(space: StateSpace, law: MaskLaw) -> List[ConditionalTable]:
    """Every row of every block of ``law``, one table for each block size.

    Raises:
        ValueError: another number of sites, or more than 2^26 (block, state) pairs.
    """
    if law.num_sites != space.num_sites:
        raise ValueError(f"the mask law has {law.num_sites} sites, the model {space.num_sites}")
    space.require_enumerable()
    if len(law.sites) * space.num_states > MAX_PAIRS:
        raise ValueError(
            f"too many states: {len(law.sites)} blocks times {space.num_states} states exceed "
            f"{MAX_PAIRS} pairs; use fewer sites or a smaller block"
        )
    tables = []
    for size, members in _by_size(law):
        states = []
        for m in members:
            hidden = law.sites[m]
            visible = [i for i in range(space.num_sites) if i not in set(hidden)]
            bases = space.block_offsets(visible)
            states.append(bases[:, None] + space.block_offsets(hidden))
        rows = len(states[0])
        block = torch.tensor(members).repeat_interleave(rows)
        tables.append(ConditionalTable(size, block, torch.cat(states)))
    return tables


def observed_tables(
    space: StateSpace, law: MaskLaw, states: LongTensor, blocks: LongTensor, weights: Tensor
) -> Iterator[Tuple[ConditionalTable, Tensor]]:
    """The rows that occur in data, with what was seen in each.

    Args:
        states: ``(T,)`` numbers of the states.
        blocks: ``(T,)`` numbers of their blocks.
        weights: ``(T,)`` weight of each pair.

    Yields:
        A table of one block size, and the weight of each of its entries ``(R, A ** k)``.
    """
    digits = states[:, None] // space.place_values % space.alphabet_size
    hidden_part = (digits * space.place_values * law.blocks[blocks]).sum(1)
    base = states - hidden_part
    sizes = law.blocks.sum(1)[blocks]
    for size, members in _by_size(law):
        chosen = sizes == size
        if not chosen.any():
            continue
        key = blocks[chosen] * space.num_states + base[chosen]
        rows, row_of = torch.unique(key, return_inverse=True)
        block = rows // space.num_states
        offsets = torch.zeros(len(law.sites), space.alphabet_size**size, dtype=torch.long)
        for m in members:
            offsets[m] = space.block_offsets(law.sites[m])
        table = ConditionalTable(size, block, (rows % space.num_states)[:, None] + offsets[block])
        # The place of a state in its row, read off the digits of the block alone.
        entry = (table.states[row_of] == states[chosen][:, None]).long().argmax(1)
        seen = torch.zeros(table.states.shape, dtype=torch.double)
        seen.index_put_((row_of, entry), weights[chosen].double(), accumulate=True)
        yield table, seen


def _by_size(law: MaskLaw) -> List[Tuple[int, List[int]]]:
    sizes = [len(sites) for sites in law.sites]
    return [(k, [m for m, s in enumerate(sizes) if s == k]) for k in sorted(set(sizes))]


def site_view(values: Tensor, size: int, position: int, alphabet_size: int) -> Tensor:
    """``(R, A ** size)`` regrouped by the symbol at one position, ``(R, A, A ** (size - 1))``."""
    a = alphabet_size
    shaped = values.reshape(len(values), a**position, a, a ** (size - position - 1))
    return shaped.transpose(1, 2).reshape(len(values), a, -1)


def product_conditionals(conditionals: Tensor, size: int, alphabet_size: int) -> Tensor:
    """The product of the single-site marginals of joint block laws, ``(R, A ** size)``.

    This is what a parallel masked predictor emits for p(x_K | x_-K) (notes, section 1.1).
    """
    product = torch.ones(len(conditionals), 1).double()
    for position in range(size):
        marginal = site_view(conditionals, size, position, alphabet_size).sum(-1)
        product = (product[:, :, None] * marginal[:, None, :]).flatten(1)
    return product
