"""Laws of the masked block K: fixed, or dependent on the sequence (adaptive)."""

import math
from itertools import combinations
from typing import Callable, List, Optional, Sequence

import torch
from torch import BoolTensor, LongTensor, Tensor

from fairseq_gmlm.theory.states import StateSpace


class MaskLaw:
    """A law over a list of blocks.

    Args:
        blocks: ``(M, N)``, True where a site is masked; no block twice.
        probabilities: ``(M,)``, or ``(S, M)`` with one law for each state (adaptive masking,
            section 1.5 of the notes).

    Raises:
        ValueError: shapes that do not fit, repeated blocks, or rows that do not sum to 1.
    """

    def __init__(self, blocks: BoolTensor, probabilities: Tensor) -> None:
        if blocks.dim() != 2 or probabilities.shape[-1:] != blocks.shape[:1]:
            raise ValueError(
                f"blocks have shape {tuple(blocks.shape)} and probabilities "
                f"{tuple(probabilities.shape)}; expected (M, N) and (M,) or (S, M)"
            )
        if len(torch.unique(blocks, dim=0)) != len(blocks):
            raise ValueError("a block is listed twice")
        probabilities = probabilities.double()
        if not (probabilities >= 0).all() or (probabilities.sum(-1) - 1).abs().max() > 1e-9:
            raise ValueError("block probabilities must be non-negative and sum to 1")
        self.blocks, self.probabilities = blocks, probabilities
        self.sites: List[List[int]] = [row.nonzero()[:, 0].tolist() for row in blocks]

    @property
    def num_sites(self) -> int:
        """N."""
        return self.blocks.shape[1]

    @property
    def adaptive(self) -> bool:
        """Whether the law is given state by state."""
        return self.probabilities.dim() == 2

    def covers(self) -> bool:
        """Whether every site is masked with positive probability (in every state)."""
        return bool(((self.probabilities @ self.blocks.double()) > 0).all())

    def table(self, num_states: int) -> Tensor:
        """p(K | x) for every state, ``(S, M)`` (an expanded view when not adaptive).

        Raises:
            ValueError: an adaptive law made for another number of states.
        """
        if not self.adaptive:
            return self.probabilities.expand(num_states, -1)
        if len(self.probabilities) != num_states:
            raise ValueError(
                f"the adaptive law has {len(self.probabilities)} states, the model {num_states}"
            )
        return self.probabilities

    def depends_on_hidden(self, space: StateSpace) -> bool:
        """Whether p(K | x) changes with the masked part x_K for some K.

        If not, the plain conditional p(x_K | x_-K) is the right one to learn; if so, the
        conditional must include K (notes, section 1.5).
        """
        if not self.adaptive:
            return False
        table, states = self.table(space.num_states), space.states()
        for m, sites in enumerate(self.sites):
            visible = states.clone()
            visible[:, sites] = 0
            if (table[:, m] - table[space.index(visible), m]).abs().max() > 1e-12:
                return True
        return False

    def sample(
        self, states: LongTensor, masks_per_sample: int, generator: torch.Generator
    ) -> LongTensor:
        """Independent draws (with replacement) of block numbers, ``(n, masks_per_sample)``.

        Args:
            states: ``(n,)`` numbers of the sampled states.
        """
        if not self.adaptive:
            shape = (len(states), masks_per_sample)
            count = shape[0] * shape[1]
            drawn = torch.multinomial(self.probabilities, count, True, generator=generator)
            return drawn.reshape(shape)
        rows = self.probabilities[states]
        return torch.multinomial(rows, masks_per_sample, True, generator=generator)


def listed_blocks(
    num_sites: int, blocks: Sequence[Sequence[int]], probabilities: Optional[Tensor] = None
) -> MaskLaw:
    """The law over these blocks of sites, uniform unless probabilities ``(M,)`` are given.

    Raises:
        ValueError: no block, or a site that is not below ``num_sites``.
    """
    if not blocks:
        raise ValueError("no block is listed")
    hidden = torch.zeros(len(blocks), num_sites, dtype=torch.bool)
    for m, sites in enumerate(blocks):
        for site in sites:
            if not 0 <= site < num_sites:
                raise ValueError(f"site {site} of block {m} is not in 0 to {num_sites - 1}")
            hidden[m, site] = True
    if probabilities is None:
        probabilities = torch.full((len(blocks),), 1.0 / len(blocks), dtype=torch.double)
    return MaskLaw(hidden, probabilities)


def uniform_blocks(num_sites: int, size: int) -> MaskLaw:
    """Unif(S_k): every block of ``size`` sites alike; k-MPLE and k-Gibbs use it.

    Raises:
        ValueError: size not in 1 to ``num_sites``.
    """
    if not 1 <= size <= num_sites:
        raise ValueError(f"block size k={size} is out of range: choose 1 to {num_sites}")
    return listed_blocks(num_sites, list(combinations(range(num_sites), size)))


def uniform_sizes(num_sites: int) -> MaskLaw:
    """|K| uniform on 1 .. N and K uniform given its size: the law of u-PMLM (notes, 7.1)."""
    blocks: List[Sequence[int]] = []
    weights: List[float] = []
    for size in range(1, num_sites + 1):
        some = list(combinations(range(num_sites), size))
        blocks += some
        weights += [1.0 / (num_sites * len(some))] * len(some)
    return listed_blocks(num_sites, blocks, torch.tensor(weights, dtype=torch.double))


def bernoulli_mask(num_sites: int, ratio: float) -> MaskLaw:
    """Every site masked independently with probability ``ratio``; the empty block included.

    Raises:
        ValueError: ratio not in (0, 1).
    """
    if not 0 < ratio < 1:
        raise ValueError(f"masking ratio {ratio} is out of range: choose one between 0 and 1")
    blocks = StateSpace(num_sites).states().bool()
    sizes = blocks.sum(1).double()
    logs = sizes * math.log(ratio) + (num_sites - sizes) * math.log1p(-ratio)
    return MaskLaw(blocks, logs.exp())


def adaptive_blocks(
    space: StateSpace,
    blocks: Sequence[Sequence[int]],
    log_weights: Callable[[LongTensor], Tensor],
) -> MaskLaw:
    """p(K | x) proportional to exp(log_weights(x)).

    Args:
        space: the states (ValueError beyond 2^16).
        blocks: M lists of sites.
        log_weights: maps states ``(S, N)`` to ``(S, M)``.
    """
    plain = listed_blocks(space.num_sites, blocks)
    return MaskLaw(plain.blocks, torch.softmax(log_weights(space.states()).double(), -1))
