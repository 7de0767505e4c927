"""Markov random fields with pair interactions: Ising models and their categorical kin."""

from typing import List, Optional, Sequence, Tuple, TypeVar

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.states import StateSpace

Edge = Tuple[int, int]
FieldType = TypeVar("FieldType", bound="PairwiseField")


class PairwiseField:
    """q(x) proportional to exp(sum_i unary[i, x_i] + sum_{i<j} pair[i, j, x_i, x_j]).

    An exponential family in the tables' entries. Its free parameters are those for symbols
    other than 0 (a table can be shifted along a row without changing the law), on ``edges``.

    Args:
        unary: ``(N, A)`` table of log-weights of single symbols.
        pair: ``(N, N, A, A)`` with ``pair[i, j, a, b] == pair[j, i, b, a]``, zero for ``i == j``.
        edges: pairs ``i < j`` whose interactions are parameters; all pairs when None. Pairs left
            out must not interact.

    Raises:
        ValueError: shapes that do not fit, a value that is not finite, an asymmetric table, or
            an interaction outside ``edges``.
    """

    def __init__(self, unary: Tensor, pair: Tensor, edges: Optional[Sequence[Edge]] = None) -> None:
        unary, pair = (
            torch.as_tensor(unary, dtype=torch.double),
            torch.as_tensor(pair, dtype=torch.double),
        )
        if unary.dim() != 2 or pair.shape != (len(unary), len(unary), *[unary.shape[1]] * 2):
            raise ValueError(
                f"unary has shape {tuple(unary.shape)} and pair {tuple(pair.shape)}; "
                "expected (N, A) and (N, N, A, A)"
            )
        for name, table in (("unary", unary), ("pair", pair)):
            if not torch.isfinite(table).all():
                raise ValueError(f"{name} holds a value that is not finite")
        if not torch.equal(pair, pair.permute(1, 0, 3, 2)):
            i, j = (pair != pair.permute(1, 0, 3, 2)).nonzero()[0, :2].tolist()
            raise ValueError(f"pair interactions are asymmetric: sites {i},{j} and {j},{i} differ")
        self.space = StateSpace(*unary.shape)
        self.unary, self.pair = unary, pair
        n = self.num_sites
        everything = [(i, j) for i in range(n) for j in range(i + 1, n)]
        self.edges: List[Edge] = everything if edges is None else [(i, j) for i, j in edges]
        bad = sorted(set(self.edges) - set(everything))
        if bad:
            raise ValueError(f"edge {bad[0]} is not a pair of sites i < j below {n}")
        kept = set(self.edges)
        for i, j in pair.abs().amax((2, 3)).triu(1).nonzero().tolist():
            if (i, j) not in kept:
                raise ValueError(f"sites {i},{j} interact but are not in edges")

    @property
    def num_sites(self) -> int:
        """N."""
        return self.space.num_sites

    @property
    def alphabet_size(self) -> int:
        """A, the number of symbols of a site."""
        return self.space.alphabet_size

    # The exponential family: exp<parameters, features(x)>.

    @property
    def parameters(self) -> Tensor:
        """Free parameters ``(P,)`` in the order of the columns of :meth:`features`."""
        pair = self.pair - self.pair[:, :, :1, :] - self.pair[:, :, :, :1] + self.pair[:, :, :1, :1]
        unary = self.unary - self.unary[:, :1]
        # Moving pair tables to "zero against symbol 0" pushes their margins into the unaries.
        unary = unary + (self.pair[:, :, :, 0] - self.pair[:, :, :1, 0]).sum(1)
        edges = [pair[i, j, 1:, 1:].reshape(-1) for i, j in self.edges]
        return torch.cat([unary[:, 1:].reshape(-1), *edges])

    def with_parameters(self: FieldType, parameters: Tensor) -> FieldType:
        """The member of the same family with these ``(P,)`` parameters.

        Raises:
            ValueError: not P numbers.
        """
        n, a = self.num_sites, self.alphabet_size
        self._check_length(parameters, n * (a - 1) + len(self.edges) * (a - 1) ** 2)
        unary = torch.zeros(n, a).double()
        pair = torch.zeros(n, n, a, a).double()
        cut = n * (a - 1)
        unary[:, 1:] = parameters[:cut].reshape(n, a - 1)
        for (i, j), table in zip(self.edges, parameters[cut:].reshape(-1, a - 1, a - 1)):
            pair[i, j, 1:, 1:] = table
            pair[j, i, 1:, 1:] = table.T
        return type(self)(unary, pair, self.edges)

    @staticmethod
    def _check_length(parameters: Tensor, expected: int) -> None:
        if parameters.shape != (expected,):
            raise ValueError(f"{tuple(parameters.shape)} parameters, expected ({expected},)")

    def features(self) -> Tensor:
        """Sufficient statistics of every state, ``(S, P)``.

        Raises:
            ValueError: more than 2^16 states.
        """
        states = self.space.states()
        shown = torch.nn.functional.one_hot(states, self.alphabet_size).double()[:, :, 1:]
        pairs = [(shown[:, i, :, None] * shown[:, j, None, :]).flatten(1) for i, j in self.edges]
        return torch.cat([shown.flatten(1), *pairs], dim=1)

    # Exact laws.

    def log_weights(self, states: LongTensor) -> Tensor:
        """Unnormalised log-probabilities ``(R,)`` of ``states (R, N)``."""
        # Half of the sum over ordered pairs; local_logits counts each pair from one side.
        local = self.local_logits(states).gather(-1, states[..., None]).squeeze(-1)
        alone = self.unary.expand(len(states), -1, -1).gather(-1, states[..., None]).squeeze(-1)
        return (local + alone).sum(-1) / 2

    def log_probabilities(self) -> Tensor:
        """Exact log-law ``(S,)`` by enumeration.

        Raises:
            ValueError: more than 2^16 states.
        """
        return torch.log_softmax(self.log_weights(self.space.states()), 0)

    def probabilities(self) -> Tensor:
        """Exact law ``(S,)`` by enumeration (ValueError beyond 2^16 states)."""
        return self.log_probabilities().exp()

    def sample(self, count: int, generator: torch.Generator) -> LongTensor:
        """Independent exact samples ``(count, N)`` (ValueError beyond 2^16 states)."""
        drawn = torch.multinomial(self.probabilities(), count, True, generator=generator)
        return self.space.states()[drawn]

    # Conditionals that need no enumeration of the whole space.

    def local_logits(self, states: LongTensor) -> Tensor:
        """Logits ``(R, N, A)`` of each site given all the others, for ``states (R, N)``."""
        n, a = self.num_sites, self.alphabet_size
        shown = torch.nn.functional.one_hot(states, a).double().flatten(1)
        weights = self.pair.permute(1, 3, 0, 2).reshape(n * a, n * a)
        return self.unary + (shown @ weights).reshape(-1, n, a)

    def block_log_conditionals(self, states: LongTensor, blocks: LongTensor) -> Tensor:
        """Joint law of a block given the rest, by enumerating its fillings alone.

        Args:
            states: ``(R, N)``; the symbols inside the block are not looked at.
            blocks: ``(R, k)`` sites of each row's block, no site twice.

        Returns:
            ``(R, A ** k)`` log-probabilities; the block's first site is the leading digit.
        """
        rows, k = blocks.shape
        a = self.alphabet_size
        fillings = StateSpace(k, a).states() if k else torch.zeros(1, 0, dtype=torch.long)
        row = torch.arange(rows)[:, None, None]
        outside = torch.ones(states.shape, dtype=torch.double).scatter_(1, blocks, 0.0)
        near = self.pair[blocks[:, :, None], torch.arange(self.num_sites)]  # (R, k, N, A, A)
        seen = near.gather(-1, states[:, None, :, None, None].expand(rows, k, -1, a, 1)).squeeze(-1)
        logits = self.unary[blocks] + torch.einsum("rkna,rn->rka", seen, outside)
        sites = torch.arange(k)
        total = logits[:, sites, fillings].sum(-1)  # (R, F)
        inner = self.pair[blocks[:, :, None], blocks[:, None, :]]  # (R, k, k, A, A)
        for s in range(k):
            for t in range(s + 1, k):
                total = total + inner[row[..., 0], s, t, fillings[:, s], fillings[:, t]]
        return torch.log_softmax(total, -1)


class IsingModel(PairwiseField):
    """q(x) proportional to exp(sum_i fields[i] x_i + sum_{i<j} couplings[i, j] x_i x_j).

    Spins are -1 and +1, written as symbols 0 and 1. Features are (x_i, x_i x_j) and parameters
    (fields, couplings on ``edges``), as in section 1.1 of the project's notes on the paper.

    Args:
        couplings: ``(N, N)``, symmetric, zero diagonal.
        fields: ``(N,)``.
        edges: pairs ``i < j`` whose coupling is a parameter; all pairs when None.

    Raises:
        ValueError: wrong shapes, asymmetric couplings, a diagonal, or a value not finite.
    """

    def __init__(
        self, couplings: Tensor, fields: Tensor, edges: Optional[Sequence[Edge]] = None
    ) -> None:
        couplings = torch.as_tensor(couplings, dtype=torch.double)
        fields = torch.as_tensor(fields, dtype=torch.double)
        n = len(fields)
        if fields.dim() != 1 or couplings.shape != (n, n):
            raise ValueError(
                f"couplings have shape {tuple(couplings.shape)} and fields {tuple(fields.shape)}; "
                "expected (N, N) and (N,)"
            )
        for name, table in (("couplings", couplings), ("fields", fields)):
            if not torch.isfinite(table).all():
                raise ValueError(f"{name} hold a value that is not finite")
        if not torch.equal(couplings, couplings.T):
            i, j = (couplings != couplings.T).nonzero()[0].tolist()
            raise ValueError(
                f"couplings are asymmetric: [{i}, {j}] is {couplings[i, j].item()} and "
                f"[{j}, {i}] is {couplings[j, i].item()}"
            )
        if couplings.diagonal().abs().max() > 0:
            raise ValueError("couplings have a diagonal; a spin does not interact with itself")
        self.couplings, self.fields = couplings, fields
        spin = torch.tensor([-1.0, 1.0], dtype=torch.double)
        super().__init__(
            fields[:, None] * spin,
            couplings[:, :, None, None] * spin[:, None] * spin[None, :],
            edges,
        )

    @property
    def parameters(self) -> Tensor:
        """Fields, then the couplings of ``edges``: ``(N + len(edges),)``."""
        return torch.cat([self.fields, *[self.couplings[i, j, None] for i, j in self.edges]])

    def with_parameters(self, parameters: Tensor) -> "IsingModel":
        """The Ising model on the same edges with these parameters (ValueError: not P of them)."""
        n = self.num_sites
        self._check_length(parameters, n + len(self.edges))
        couplings = torch.zeros(n, n).double()
        for (i, j), value in zip(self.edges, parameters[n:]):
            couplings[i, j] = couplings[j, i] = value
        return IsingModel(couplings, parameters[:n], self.edges)

    def features(self) -> Tensor:
        """(x_i, x_i x_j) of every state, ``(S, N + len(edges))`` (ValueError beyond 2^16)."""
        spins = self.space.states().double() * 2 - 1
        return torch.cat([spins, *[(spins[:, i] * spins[:, j])[:, None] for i, j in self.edges]], 1)
