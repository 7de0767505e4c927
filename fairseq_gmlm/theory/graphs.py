"""Ising models and random fields on the usual graphs, with fixed seeds."""

from typing import List, Sequence

import torch

from fairseq_gmlm.theory.distributions import Edge, IsingModel, PairwiseField


def ising_on(num_sites: int, edges: Sequence[Edge], coupling: float, field: float) -> IsingModel:
    """The model with one coupling on every edge and one field on every site.

    Args:
        num_sites: N.
        edges: pairs ``i < j``; they are also the only couplings that an estimator may learn.
    """
    couplings = torch.zeros(num_sites, num_sites).double()
    for i, j in edges:
        couplings[i, j] = couplings[j, i] = coupling
    return IsingModel(couplings, torch.full((num_sites,), float(field), dtype=torch.double), edges)


def chain_ising(num_sites: int, coupling: float, field: float = 0.0) -> IsingModel:
    """An open chain of ``num_sites`` spins."""
    return ising_on(num_sites, [(i, i + 1) for i in range(num_sites - 1)], coupling, field)


def cycle_ising(num_sites: int, coupling: float, field: float = 0.0) -> IsingModel:
    """A closed chain (ValueError below three spins)."""
    if num_sites < 3:
        raise ValueError(f"a cycle needs at least 3 sites, got {num_sites}")
    edges = [(i, i + 1) for i in range(num_sites - 1)] + [(0, num_sites - 1)]
    return ising_on(num_sites, edges, coupling, field)


def grid_ising(rows: int, columns: int, coupling: float, field: float = 0.0) -> IsingModel:
    """A ``rows`` by ``columns`` grid with free borders, sites numbered row by row."""
    edges: List[Edge] = []
    for site in range(rows * columns):
        if (site + 1) % columns:
            edges.append((site, site + 1))
        if site + columns < rows * columns:
            edges.append((site, site + columns))
    return ising_on(rows * columns, edges, coupling, field)


def clique_ising(sizes: Sequence[int], coupling: float, field: float = 0.0) -> IsingModel:
    """Separate cliques of the given sizes; ``[5]`` is the fully coupled model of five spins.

    With a positive field this is the separation construct of the notes' section 1.6.
    """
    edges: List[Edge] = []
    start = 0
    for size in sizes:
        block = range(start, start + size)
        edges += [(i, j) for i in block for j in block if i < j]
        start += size
    return ising_on(start, edges, coupling, field)


def dense_ising(num_sites: int, coupling_scale: float, field_scale: float, seed: int) -> IsingModel:
    """Couplings of all pairs ~ N(0, coupling_scale^2), fields ~ N(0, field_scale^2)."""
    generator = torch.Generator().manual_seed(seed)
    upper = torch.randn(num_sites, num_sites, generator=generator, dtype=torch.double).triu(1)
    fields = torch.randn(num_sites, generator=generator, dtype=torch.double)
    return IsingModel(coupling_scale * (upper + upper.T), field_scale * fields)


def dense_field(num_sites: int, alphabet_size: int, scale: float, seed: int) -> PairwiseField:
    """A categorical field with all entries of its tables ~ N(0, scale^2)."""
    generator = torch.Generator().manual_seed(seed)
    n, a = num_sites, alphabet_size
    unary = torch.randn(n, a, generator=generator, dtype=torch.double)
    pair = torch.randn(n, n, a, a, generator=generator, dtype=torch.double)
    pair = pair * torch.ones(n, n).triu(1)[:, :, None, None]
    return PairwiseField(scale * unary, scale * (pair + pair.permute(1, 0, 3, 2)))
