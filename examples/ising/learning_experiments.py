"""What masking does to learning: parameter error, joint quality, and the constants behind both."""

import itertools
import math
from pathlib import Path
from typing import List

import torch
from experiment import Cell, Experiment, Rows

from fairseq_gmlm.theory.asymptotics import sandwich
from fairseq_gmlm.theory.bounds import joint_quality
from fairseq_gmlm.theory.constants import entropy_constant, poincare_constant
from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.estimators import fit_pseudolikelihood
from fairseq_gmlm.theory.graphs import clique_ising, cycle_ising, dense_ising
from fairseq_gmlm.theory.mask_laws import listed_blocks, uniform_blocks
from fairseq_gmlm.theory.model_file import read_ising


def named_model(name: str) -> IsingModel:
    """The models of the experiments by name."""
    if name == "dense5":
        return read_ising(Path(__file__).parent / "dense5.json")[0]
    if name == "cliques3+3":
        return clique_ising([3, 3], 0.5, 0.2)
    if name == "cycle8":
        return cycle_ising(8, 0.5, 0.2)
    return clique_ising([5], float(name.split("=")[1]), 0.2)  # "clique5 J=..."


def spread(values: List[float]) -> "tuple[float, float]":
    """Mean and its standard error."""
    table = torch.tensor(values, dtype=torch.double)
    if len(table) < 2:
        return table.mean().item(), 0.0
    return table.mean().item(), (table.std() / math.sqrt(len(table))).item()


def _seed(cell: Cell, repeat: int) -> torch.Generator:
    # The same samples for every k and loss, so that lines differ by the method alone.
    return torch.Generator().manual_seed(1000 * repeat + cell["n"])


def _parameter_cells(quick: bool) -> List[Cell]:
    counts = [500, 2000] if quick else [500, 2000, 8000, 32000]
    variants = [("joint", 1), ("product", 1), ("joint", 4), ("joint", 0)]
    cells = []
    for model, sites in (("dense5", 5), ("cliques3+3", 6)):
        for (loss, masks), n in itertools.product(variants, counts):
            for k in range(1, sites + 1):
                if loss == "product" and k == sites:
                    continue  # margins only: no estimate of the couplings
                cell = {"model": model, "loss": loss, "masks": masks, "n": n, "k": k}
                cells.append({**cell, "repeats": 4 if quick else 40})
    return cells


def _parameter_error(cell: Cell) -> Rows:
    truth = named_model(cell["model"])
    law = uniform_blocks(truth.num_sites, cell["k"])
    masks = cell["masks"] or None
    errors, failed = [], 0
    for repeat in range(cell["repeats"]):
        generator = _seed(cell, repeat)
        samples = truth.sample(cell["n"], generator)
        estimate = fit_pseudolikelihood(truth, law, samples, masks, cell["loss"], generator)
        if estimate.converged:
            errors.append(((estimate.parameters - truth.parameters) ** 2).sum().item())
        else:
            failed += 1  # a small sample whose minimum is at infinity
    mean, error = spread(errors)
    theory = sandwich(truth, law, cell["loss"], masks).trace
    return [{"mse": mean, "mse_se": error, "n_mse_theory": theory, "not_converged": failed}]


def _quality_cells(quick: bool) -> List[Cell]:
    if quick:
        return [{"model": "dense5", "n": 2000, "k": k, "repeats": 2} for k in (2, 5)]
    return [
        {"model": model, "n": n, "k": k, "repeats": 12}
        for model in ("dense5", "clique5 J=0.3", "clique5 J=0.6")
        for n in (2000, 16000)
        for k in range(1, 6)
    ]


def _joint_quality(cell: Cell) -> Rows:
    truth = named_model(cell["model"])
    law = uniform_blocks(truth.num_sites, cell["k"])
    results = []
    for repeat in range(cell["repeats"]):
        generator = _seed(cell, repeat)
        samples = truth.sample(cell["n"], generator)
        estimate = fit_pseudolikelihood(truth, law, samples, 1, "joint", generator)
        learned = truth.with_parameters(estimate.parameters)
        results.append(vars(joint_quality(truth, learned, law, starts=0)))
    row = {}
    for name in results[0]:
        row[name], row[f"{name}_se"] = spread([result[name] for result in results])
    return [row]


def _constant_cells(quick: bool) -> List[Cell]:
    seeds = 2 if quick else 10
    scales = [0.5] if quick else [0.1, 0.3, 0.5, 1.0]
    couplings = [0.0, 0.6] if quick else [0.0, 0.1, 0.3, 0.6, 1.0]
    sizes = (2, 5) if quick else range(1, 6)
    random = [
        {"model": "dense", "scale": scale, "k": k, "seeds": seeds}
        for scale in scales
        for k in sizes
    ]
    clique = [{"model": "clique5", "scale": j, "k": k} for j in couplings for k in sizes]
    adaptive = [
        {"model": "cliques4+4", "scale": j, "k": 4, "blocks": blocks}
        for j in couplings
        for blocks in ("uniform", "cliques")
    ]
    return random + clique + adaptive


def _constants(cell: Cell) -> Rows:
    if cell["model"] == "dense":
        models = [dense_ising(5, cell["scale"], 0.3, seed) for seed in range(cell["seeds"])]
    else:
        sizes = [5] if cell["model"] == "clique5" else [4, 4]
        models = [clique_ising(sizes, cell["scale"], 0.2)]
    law = uniform_blocks(models[0].num_sites, cell["k"])
    if cell.get("blocks") == "cliques":
        law = listed_blocks(8, [range(4), range(4, 8)])
    # Means of logarithms: the constants of random models differ by factors.
    columns = {"poincare": [], "entropy_lower": [], "entropy_upper": []}
    for model in models:
        entropy = entropy_constant(model, law, starts=2)
        columns["poincare"].append(poincare_constant(model, law))
        columns["entropy_lower"].append(entropy.lower)
        columns["entropy_upper"].append(entropy.upper)
    row = {}
    for name, values in columns.items():
        mean, error = spread([math.log(value) for value in values])
        row[name], row[f"{name}_log_se"] = math.exp(mean), error
    return [row]


PARAMETER_ERROR = Experiment("parameter_error", _parameter_cells, _parameter_error)
JOINT_QUALITY = Experiment("joint_quality", _quality_cells, _joint_quality)
CONSTANTS = Experiment("constants", _constant_cells, _constants)
