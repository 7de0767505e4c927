"""The finite set of states that everything exact is computed on, and how states are numbered."""

from typing import Sequence

import torch
from torch import LongTensor, Tensor

MAX_STATES = 2**16


class StateSpace:
    """All sequences of ``num_sites`` symbols 0 .. ``alphabet_size - 1``.

    A state's number is its base-``alphabet_size`` reading with site 0 as the leading digit, so a
    vector over states reshapes to ``(alphabet_size,) * num_sites`` with one axis per site.

    Raises:
        ValueError: fewer than one site or two symbols.
    """

    def __init__(self, num_sites: int, alphabet_size: int = 2) -> None:
        if num_sites < 1 or alphabet_size < 2:
            raise ValueError(
                f"num_sites={num_sites} and alphabet_size={alphabet_size}: at least 1 site and "
                "2 symbols are needed"
            )
        self.num_sites = num_sites
        self.alphabet_size = alphabet_size
        # Beyond 62 bits no state has a number; single sites and blocks still work there.
        self.num_states = alphabet_size**num_sites
        powers = [alphabet_size ** (num_sites - 1 - i) for i in range(num_sites)]
        self.place_values = torch.tensor([p if p < 2**62 else 0 for p in powers])

    def require_enumerable(self, limit: int = MAX_STATES) -> None:
        """Raise ValueError when there are more than ``limit`` states to enumerate."""
        if self.num_states > limit:
            raise ValueError(
                f"too many states: {self.alphabet_size}^{self.num_sites} = {self.num_states}, "
                f"the exact computation takes at most {limit}; use fewer sites, or simulate"
            )

    def states(self) -> LongTensor:
        """Every state in the order of the numbers, ``(num_states, num_sites)``.

        Raises:
            ValueError: more than 2^16 states.
        """
        self.require_enumerable()
        numbers = torch.arange(self.num_states)
        return numbers[:, None] // self.place_values % self.alphabet_size

    def index(self, states: LongTensor) -> LongTensor:
        """Numbers of ``states (..., num_sites)``, one integer each.

        Raises:
            ValueError: the last axis is not ``num_sites`` long, or a symbol is out of range.
        """
        if states.shape[-1] != self.num_sites:
            raise ValueError(f"states have {states.shape[-1]} sites, expected {self.num_sites}")
        if states.numel() and (states.min() < 0 or states.max() >= self.alphabet_size):
            raise ValueError(
                f"symbols run from {states.min()} to {states.max()}, "
                f"expected 0 to {self.alphabet_size - 1}"
            )
        return (states * self.place_values).sum(-1)

    def block_offsets(self, sites: Sequence[int]) -> LongTensor:
        """What each filling of ``sites`` adds to a state's number, ``(A ** len(sites),)``.

        Fillings are ordered like states: the first of ``sites`` is the leading digit.
        """
        offsets = torch.zeros(1, dtype=torch.long)
        symbols = torch.arange(self.alphabet_size)
        for site in sites:
            offsets = (offsets[:, None] + symbols * self.place_values[site]).reshape(-1)
        return offsets


def total_variation(first: Tensor, second: Tensor) -> Tensor:
    """Half the L1 distance over the last axis of two laws ``(..., S)``, between 0 and 1."""
    return (first - second).abs().sum(-1) / 2


def kl_divergence(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second) in nats over the last axis, infinite where ``second`` misses mass."""
    # xlogy makes 0 log 0 zero; the second term is then 0 times a finite or infinite number.
    cross = torch.where(first > 0, first * second.log(), torch.zeros_like(first))
    return (torch.xlogy(first, first) - cross).sum(-1)
