"""Estimators: weighted maximum pseudolikelihood, k-MPLE and maximum likelihood."""

from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw, uniform_blocks
from fairseq_gmlm.theory.objectives import PseudolikelihoodObjective


@dataclass
class Estimate:
    """What a fit returns.

    Attributes:
        parameters: ``(P,)``.
        loss: mean loss in nats at them.
        gradient_norm: largest entry of the gradient there.
        iterations: Newton steps, or L-BFGS iterations.
        converged: whether ``gradient_norm`` is below the tolerance. It may not be when a small
            sample leaves the minimum at infinity; a penalty of the objective mends that.
    """

    parameters: Tensor
    loss: float
    gradient_norm: float
    iterations: int
    converged: bool


def newton(
    objective: PseudolikelihoodObjective,
    start: Tensor,
    tolerance: float = 1e-9,
    max_iterations: int = 60,
) -> Estimate:
    """Newton's method with step halving, from ``start (P,)``.

    Flat directions (the product loss learns only margins at k = N) are left where they are, and
    directions of negative curvature (the product loss is not convex) are walked downhill.
    """
    theta = start.double().clone()
    value = objective.value(theta)
    iterations = 0
    gradient = objective.gradient(theta)
    while gradient.abs().max() > tolerance and iterations < max_iterations:
        curvature, axes = torch.linalg.eigh(objective.hessian(theta))
        along = axes.T @ gradient
        flat = curvature.abs() <= 1e-10 * curvature.abs().max()
        along = torch.where(flat, torch.zeros_like(along), along / curvature.abs())
        step = axes @ along
        decrease = (gradient @ step).item()
        length = 1.0
        while length > 1e-10:
            trial = objective.value(theta - length * step)
            # The slack is the rounding of a sum of order one.
            if trial <= value - 1e-4 * length * decrease + 1e-14 * (1 + abs(value)):
                break
            length /= 2
        else:
            break
        theta, value = theta - length * step, trial
        gradient = objective.gradient(theta)
        iterations += 1
    norm = gradient.abs().max().item()
    return Estimate(theta, value, norm, iterations, norm <= tolerance)


def lbfgs(
    objective: PseudolikelihoodObjective,
    start: Tensor,
    tolerance: float = 1e-7,
    max_iterations: int = 500,
) -> Estimate:
    """L-BFGS with a strong Wolfe line search, from ``start (P,)``; for many parameters."""
    theta = start.double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [theta],
        max_iter=max_iterations,
        tolerance_grad=tolerance,
        tolerance_change=0.0,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        theta.grad = objective.gradient(theta.detach())
        return torch.tensor(objective.value(theta.detach()), dtype=torch.double)

    optimizer.step(closure)
    iterations = optimizer.state[theta]["n_iter"]
    theta = theta.detach()
    norm = objective.gradient(theta).abs().max().item()
    return Estimate(theta, objective.value(theta), norm, iterations, norm <= tolerance)


def masked_pairs(
    law: MaskLaw,
    samples: LongTensor,
    masks_per_sample: Optional[int],
    generator: Optional[torch.Generator] = None,
    num_states: Optional[int] = None,
) -> Tuple[LongTensor, LongTensor, Tensor]:
    """(state, block) pairs of a data set: states, blocks and weights, each ``(T,)``.

    Args:
        samples: ``(n,)`` numbers of the sampled states.
        masks_per_sample: draws of K for each sample (1 is the theory's setting); None takes
            every block of the law, weighted by its probability (caveat A of the notes).
        generator: for the draws; needed unless ``masks_per_sample`` is None.
        num_states: needed by None with an adaptive law only.

    Raises:
        ValueError: fewer than one mask, or no generator to draw them with.
    """
    if masks_per_sample is None:
        distinct, counts = torch.unique(samples, return_counts=True)
        table = law.table(num_states or int(samples.max()) + 1)[distinct]
        weights = counts[:, None] * table
        blocks = torch.arange(len(law.sites)).expand(len(distinct), -1)
        return distinct.repeat_interleave(blocks.shape[1]), blocks.flatten(), weights.flatten()
    if masks_per_sample < 1 or generator is None:
        raise ValueError(
            f"masks_per_sample={masks_per_sample} with generator {generator}: at least one mask "
            "and a generator to draw it are needed"
        )
    blocks = law.sample(samples, masks_per_sample, generator).flatten()
    states = samples.repeat_interleave(masks_per_sample)
    return states, blocks, torch.ones(len(states)).double()


def fit_pseudolikelihood(
    family: PairwiseField,
    law: MaskLaw,
    samples: LongTensor,
    masks_per_sample: Optional[int] = 1,
    loss: str = "joint",
    generator: Optional[torch.Generator] = None,
    penalty: float = 0.0,
    start: Optional[Tensor] = None,
) -> Estimate:
    """Maximum pseudolikelihood for any mask law, by Newton's method (notes, section 1.1).

    Args:
        family: any member of the family to fit.
        samples: sampled states, ``(n, N)``.
        start: ``(P,)``; zeros when None.

    Raises:
        ValueError: samples of another length or alphabet, and what the parts above raise.
    """
    space = family.space
    numbers = space.index(samples)
    states, blocks, weights = masked_pairs(
        law, numbers, masks_per_sample, generator, space.num_states
    )
    objective = PseudolikelihoodObjective(
        family, law, states, blocks, weights, loss, penalty=penalty
    )
    return newton(objective, torch.zeros_like(family.parameters) if start is None else start)


def fit_mple(
    family: PairwiseField,
    size: int,
    samples: LongTensor,
    generator: torch.Generator,
    loss: str = "joint",
) -> Estimate:
    """k-MPLE with one mask a sample: k = 1 is Besag's pseudolikelihood, k = N the MLE."""
    law = uniform_blocks(family.num_sites, size)
    return fit_pseudolikelihood(family, law, samples, 1, loss, generator)


def fit_mle(family: PairwiseField, samples: LongTensor) -> Estimate:
    """Maximum likelihood on ``samples (n, N)``."""
    return fit_pseudolikelihood(
        family, uniform_blocks(family.num_sites, family.num_sites), samples, None
    )
