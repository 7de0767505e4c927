"""Markov-chain sources: sequences whose exact law is known at any length."""

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.distributions import PairwiseField


class MarkovSource:
    """Sequences whose first symbol has law ``initial`` and the others follow ``transition``.

    Args:
        initial: ``(A,)`` probabilities.
        transition: ``(A, A)``; row a is the law of the symbol after a.

    Raises:
        ValueError: shapes that do not fit, a negative entry, or a row that does not sum to 1.
    """

    def __init__(self, initial: Tensor, transition: Tensor) -> None:
        initial, transition = (
            torch.as_tensor(initial, dtype=torch.double),
            torch.as_tensor(transition, dtype=torch.double),
        )
        if initial.dim() != 1 or transition.shape != (len(initial), len(initial)):
            raise ValueError(
                f"initial has shape {tuple(initial.shape)} and transition "
                f"{tuple(transition.shape)}; expected (A,) and (A, A)"
            )
        for name, table in (("initial", initial), ("transition", transition)):
            if not (table >= 0).all() or (table.double().sum(-1) - 1).abs().max() > 1e-6:
                raise ValueError(f"{name} is not made of probabilities that sum to 1")
        self.initial, self.transition = initial, transition

    @classmethod
    def random(cls, alphabet_size: int, concentration: float, seed: int) -> "MarkovSource":
        """Rows ~ Dirichlet(concentration), started from the chain's stationary law.

        Small concentrations give strong dependence between neighbours.
        """
        # torch's Dirichlet takes no generator: fork, so that the caller's random state stays.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            shape = torch.full(
                (alphabet_size, alphabet_size), float(concentration), dtype=torch.double
            )
            transition = torch.distributions.Dirichlet(shape).sample()
        return cls(torch.linalg.matrix_power(transition, 2**20)[0], transition)

    def sample(self, count: int, length: int, generator: torch.Generator) -> LongTensor:
        """Independent sequences ``(count, length)``."""
        symbol = torch.multinomial(self.initial, count, True, generator=generator)
        columns = [symbol]
        for _ in range(length - 1):
            symbol = torch.multinomial(self.transition[symbol], 1, generator=generator)[:, 0]
            columns.append(symbol)
        return torch.stack(columns, 1)

    def log_probabilities(self, sequences: LongTensor) -> Tensor:
        """Exact log-probabilities ``(R,)`` of ``sequences (R, length)``."""
        steps = self.transition.log()[sequences[:, :-1], sequences[:, 1:]]
        return self.initial.log()[sequences[:, 0]] + steps.sum(1)

    def as_field(self, length: int) -> PairwiseField:
        """The same law at one length as a random field, for exact block conditionals.

        Raises:
            ValueError: a probability of zero, which no random field with finite tables has.
        """
        if not (self.initial > 0).all() or not (self.transition > 0).all():
            raise ValueError("a zero probability cannot be written as a random field")
        size = len(self.initial)
        unary = torch.zeros(length, size).double()
        unary[0] = self.initial.log()
        pair = torch.zeros(length, length, size, size).double()
        for i in range(length - 1):
            pair[i, i + 1] = self.transition.log()
            pair[i + 1, i] = self.transition.log().T
        return PairwiseField(unary, pair, [(i, i + 1) for i in range(length - 1)])
