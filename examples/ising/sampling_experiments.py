"""What dependence does to sampling: mixing, bias, escape, and chains of two hundred spins."""

import math
from typing import List, Optional

import torch
from experiment import Cell, Experiment, Rows
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.chains import (
    block_gibbs_matrix,
    extremes,
    hitting_time,
    masked_product_matrix,
    mixing_steps,
    stationary_law,
    synchronous_matrix,
    total_variation_curve,
)
from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.graphs import clique_ising
from fairseq_gmlm.theory.mask_laws import uniform_blocks
from fairseq_gmlm.theory.simulation import (
    Step,
    block_step,
    first_passage,
    simulate,
    spins,
    synchronous_step,
)
from fairseq_gmlm.theory.states import total_variation

CHAINS = [
    ("block_gibbs", 1),
    ("block_gibbs", 2),
    ("block_gibbs", 5),
    ("masked_product", 2),
    ("masked_product", 5),
    ("synchronous", 0),
]


def _kernel(model: IsingModel, chain: str, k: int) -> Tensor:
    if chain == "synchronous":
        return synchronous_matrix(model)
    make = block_gibbs_matrix if chain == "block_gibbs" else masked_product_matrix
    return make(model, uniform_blocks(model.num_sites, k))


def _step(model: IsingModel, chain: str, k: int, blocks: Optional[LongTensor] = None) -> Step:
    if chain == "synchronous":
        return synchronous_step(model)
    return block_step(model, k, chain == "masked_product", blocks)


def _mixing_cells(quick: bool) -> List[Cell]:
    return [
        {"J": j, "start": start, "chain": chain, "k": k, "rows": 500 if quick else 8000}
        for j in ([0.1, 0.6] if quick else [0.1, 0.3, 0.6, 1.0])
        for start in (["minus"] if quick else ["minus", "uniform"])
        for chain, k in CHAINS
    ]


def _mixing(cell: Cell) -> Rows:
    model = clique_ising([5], cell["J"], 0.2)
    truth = model.probabilities()
    start, _, _ = extremes(5)
    if cell["start"] == "uniform":
        start = torch.full_like(start, 1 / len(start))
    kernel = _kernel(model, cell["chain"], cell["k"])
    own = stationary_law(kernel)
    moves = mixing_steps(kernel, start, 0.1, own)
    bias = total_variation(own, truth).item()
    steps = sorted({0, *(round(2 ** (e / 2)) for e in range(41))})
    curve = total_variation_curve(kernel, start, truth, steps).tolist()
    rows = [
        {"step": s, "tv": tv, "steps_to_own_law": moves, "bias": bias}
        for s, tv in zip(steps, curve)
    ]
    if cell["start"] == "uniform":
        return rows
    # The same chain simulated: four independent batches.
    first = torch.zeros(cell["rows"], 5, dtype=torch.long)
    seen = []
    for batch in range(4):
        generator = torch.Generator().manual_seed(batch)
        step = _step(model, cell["chain"], cell["k"])

        def distance(states: LongTensor) -> Tensor:
            counts = torch.bincount(model.space.index(states), minlength=len(truth))
            return total_variation(counts / len(states), truth)

        paths = simulate(step, first, 32, generator, distance)
        seen.append(paths)
    simulated = torch.stack(seen)
    for row in rows:
        if row["step"] in (1, 2, 4, 8, 16, 32):
            values = simulated[:, row["step"]]
            row["simulated_tv"], row["simulated_sd"] = values.mean().item(), values.std().item()
    return rows


def _escape_cells(quick: bool) -> List[Cell]:
    couplings = [0.1, 0.6] if quick else [round(0.1 * i, 1) for i in range(1, 13)]
    return [
        {"J": j, "chain": chain, "k": k, "rows": 50 if quick else 400}
        for chain, k in CHAINS
        for j in couplings
    ]


def _escape(cell: Cell) -> Rows:
    model = clique_ising([5], cell["J"], 0.2)
    kernel = _kernel(model, cell["chain"], cell["k"])
    _, minus, plus = extremes(5)
    goal = torch.zeros(len(kernel), dtype=torch.bool)
    goal[plus] = True
    exact = hitting_time(kernel, minus, goal)
    row = {"hitting_time": exact, "exit_probability": 1 - kernel[minus, minus].item()}
    if exact < 300:  # longer ones take minutes to simulate and say the same
        generator = torch.Generator().manual_seed(7)
        start = torch.zeros(cell["rows"], 5, dtype=torch.long)
        times = first_passage(
            _step(model, cell["chain"], cell["k"]),
            start,
            lambda states: states.all(1),
            50_000,
            generator,
        ).double()
        row["simulated"] = times.mean().item()
        row["simulated_se"] = (times.std() / math.sqrt(len(times))).item()
    return [row]


LARGE_SITES = 200


def _large_cells(quick: bool) -> List[Cell]:
    return [
        {"J": j, "chain": chain, "k": k, "blocks": blocks, "steps": 20 if quick else 1000}
        for j in ([0.6] if quick else [0.1, 0.6])
        for chain, k, blocks in (
            ("block_gibbs", 1, "uniform"),
            ("block_gibbs", 5, "uniform"),
            ("block_gibbs", 5, "cliques"),
            ("masked_product", 5, "cliques"),
            ("synchronous", 0, ""),
        )
    ]


def _large(cell: Cell) -> Rows:
    """Forty cliques of five: the exact mean spin is known from one clique."""
    model = clique_ising([5] * (LARGE_SITES // 5), cell["J"], 0.2)
    one = clique_ising([5], cell["J"], 0.2)
    truth, states = one.probabilities(), one.space.states()
    exact = {
        "exact_mean_spin": (truth @ spins(states)).mean().item(),
        "exact_agreement": (truth[0] + truth[-1]).item(),
    }
    blocks = torch.arange(LARGE_SITES).reshape(-1, 5) if cell["blocks"] == "cliques" else None
    generator = torch.Generator().manual_seed(11)
    paths = simulate(
        _step(model, cell["chain"], cell["k"], blocks),
        torch.zeros(16, LARGE_SITES, dtype=torch.long),
        cell["steps"],
        generator,
        _mean_and_agreement,
    )
    steps = sorted({round(2 ** (e / 2)) for e in range(21)} | {0, cell["steps"]})
    rows = []
    for step in steps:
        if step > cell["steps"]:
            continue
        row = {"step": step}
        for name, seen in zip(("mean_spin", "agreement"), paths[step]):
            row[name] = seen.mean().item()
            row[f"{name}_se"] = (seen.std() / math.sqrt(len(seen))).item()
        rows.append({**row, **exact})
    return rows


def _mean_and_agreement(states: LongTensor) -> Tensor:
    """``(2, R)``: mean spin of a row, and the share of its cliques whose spins are all alike."""
    cliques = spins(states).reshape(len(states), -1, 5)
    agree = (cliques.sum(2).abs() == 5).double()
    return torch.stack([cliques.mean((1, 2)), agree.mean(1)])


MIXING = Experiment("mixing", _mixing_cells, _mixing)
ESCAPE = Experiment("escape", _escape_cells, _escape)
LARGE = Experiment("large", _large_cells, _large)
