"""A small ``gmlm_lm`` trained on samples of an Ising model, against everything exact."""

from typing import List

import torch
from experiment import Cell, Experiment, Rows
from language_model import build_language_model

from fairseq_gmlm.theory.chains import extremes, stationary_law, total_variation_curve
from fairseq_gmlm.theory.graphs import clique_ising
from fairseq_gmlm.theory.mask_laws import uniform_blocks, uniform_sizes
from fairseq_gmlm.theory.neural import (
    block_gibbs_kernel,
    conditional_error,
    exact_conditional,
    masked_product_kernel,
    synchronous_kernel,
)
from fairseq_gmlm.theory.states import total_variation
from fairseq_gmlm.theory.training import as_conditional, train_network

SITES = 5
FIELD = 0.2
STEPS = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]


def _cells(quick: bool) -> List[Cell]:
    learned = [
        {"J": j, "n": n, "training": training, "seed": seed, "updates": 20 if quick else 600}
        for j in (0.1, 0.6)
        for n in ((500,) if quick else (500, 2000, 8000))
        for training in ("one site", "uniform sizes")
        for seed in range(1 if quick else 3)
    ]
    return [{"J": j, "training": "exact"} for j in (0.1, 0.6)] + learned


def _neural(cell: Cell) -> Rows:
    truth = clique_ising([SITES], cell["J"], FIELD)
    space, law = truth.space, truth.probabilities()
    conditional = exact_conditional(truth)
    if cell["training"] != "exact":
        samples = truth.sample(cell["n"], torch.Generator().manual_seed(cell["seed"]))
        masks = uniform_blocks(SITES, 1)
        if cell["training"] == "uniform sizes":
            masks = uniform_sizes(SITES)
        network = build_language_model(SITES, 2, cell["seed"])
        train_network(network, samples, masks, cell["updates"], cell["seed"], batch_size=128)
        conditional = as_conditional(network)
    rows: Rows = [
        {"quantity": "conditional_error", "k": k, "value": value}
        for k, value in conditional_error(conditional, truth, uniform_sizes(SITES)).items()
    ]
    start = extremes(SITES)[0]
    kernels = {("synchronous", 0): synchronous_kernel(conditional, space)}
    for k in range(1, SITES + 1):
        blocks = uniform_blocks(SITES, k)
        kernels["block_gibbs", k] = block_gibbs_kernel(conditional, space, blocks)
        kernels["masked_product", k] = masked_product_kernel(conditional, space, blocks)
    for (chain, k), kernel in kernels.items():
        bias = total_variation(stationary_law(kernel), law).item()
        rows.append({"quantity": "stationary_tv", "chain": chain, "k": k, "value": bias})
        curve = total_variation_curve(kernel, start, law, STEPS)
        rows += [
            {"quantity": "tv", "chain": chain, "k": k, "step": step, "value": value}
            for step, value in zip(STEPS, curve.tolist())
        ]
    return rows


NEURAL = Experiment("neural", _cells, _neural)
