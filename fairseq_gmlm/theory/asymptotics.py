"""Large-sample theory: generalized Fisher information and sandwich covariances.

Notes, section 1.2. With sample size n, n * E|theta_hat - theta|^2 tends to the trace of the
covariance computed here.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor

from fairseq_gmlm.theory.conditionals import conditional_tables, site_view
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.objectives import (
    LOSSES,
    PseudolikelihoodObjective,
    population_pairs,
)


@dataclass
class Sandwich:
    """H^-1 J H^-1 and its parts.

    Attributes:
        hessian: H ``(P, P)``, the expected Hessian of the loss at the truth.
        score_covariance: J ``(P, P)``, the covariance of one sample's score.
        rank: of H; below P some parameters cannot be learned by this loss.
        covariance: ``(P, P)``, or None when H is singular.
    """

    hessian: Tensor
    score_covariance: Tensor
    rank: int
    covariance: Optional[Tensor]

    @property
    def trace(self) -> Optional[float]:
        """Limit of n * E|theta_hat - theta|^2, or None when H is singular."""
        return None if self.covariance is None else self.covariance.trace().item()


def information(model: PairwiseField, law: MaskLaw) -> Tensor:
    """Generalized Fisher information I_K = E_K E[Cov(F | x_-K, K)], ``(P, P)``.

    For one mask a sample and the joint block loss the estimator's covariance is its inverse.
    At ``uniform_blocks(N, N)`` it is the ordinary Fisher information.
    """
    pairs = population_pairs(law, model.probabilities())
    return PseudolikelihoodObjective(model, law, *pairs).hessian(model.parameters)


def sandwich(
    model: PairwiseField,
    law: MaskLaw,
    loss: str = "joint",
    masks_per_sample: Optional[int] = 1,
) -> Sandwich:
    """Asymptotic covariance of the estimator with this mask law and loss at ``model``.

    Args:
        masks_per_sample: m independent masks each, or None for all blocks of the law. Between
            the two, J_m = J_all + (J_1 - J_all) / m, since masks of a sample are independent
            given it.

    Raises:
        ValueError: an unknown loss or fewer than one mask.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss {loss!r} is unknown: choose one of {', '.join(LOSSES)}")
    if masks_per_sample is not None and masks_per_sample < 1:
        raise ValueError(f"masks_per_sample={masks_per_sample} is out of range: at least 1")
    features, q = model.features(), model.probabilities()
    size, a = features.shape[1], model.alphabet_size
    one = torch.zeros(size, size).double()
    averaged = torch.zeros(len(features), size).double()  # E[score | x] times q(x)
    for table in conditional_tables(model.space, law):
        weights = table.joint_weights(law, q)
        step = max(1, 2**22 // (size * weights.shape[1]))
        for start in range(0, len(weights), step):
            w, states = weights[start : start + step], table.states[start : start + step]
            scores = _scores(features[states], w, table.size, a, loss)
            flat = scores.flatten(0, 1) * w.reshape(-1, 1)
            one += scores.flatten(0, 1).T @ flat
            averaged.index_add_(0, states.flatten(), flat)
    everything = averaged.T @ (averaged / q[:, None])
    mixed = 0.0 if masks_per_sample is None else 1.0 / masks_per_sample
    meat = everything + mixed * (one - everything)
    pairs = population_pairs(law, q)
    bread = PseudolikelihoodObjective(model, law, *pairs, loss=loss).hessian(model.parameters)
    rank = int(torch.linalg.matrix_rank(bread, rtol=1e-10, hermitian=True))
    covariance = None
    if rank == size:
        inverse = torch.linalg.inv(bread)
        covariance = inverse @ meat @ inverse
    return Sandwich(bread, meat, rank, covariance)


def _scores(features: Tensor, weights: Tensor, size: int, alphabet: int, loss: str) -> Tensor:
    """Gradients of log p(x_K | x_-K), or of the sum over i, for every entry ``(R, B, P)``."""
    inside = weights / weights.sum(1, keepdim=True).clamp_min(1e-300)
    mean = torch.bmm(inside[:, None], features)
    if loss == "joint":
        return features - mean
    scores = -size * mean.expand_as(features)
    rows, width, parameters = features.shape
    for position in range(size):
        shape = (rows, alphabet**position, alphabet, alphabet ** (size - position - 1))
        share = inside.reshape(*shape, 1)
        given = (share * features.reshape(*shape, parameters)).sum((1, 3), keepdim=True)
        given = given / site_view(inside, size, position, alphabet).sum(-1)[:, None, :, None, None]
        scores = scores + given.expand(*shape, parameters).reshape(rows, width, parameters)
    return scores


def order_gap(larger: Tensor, smaller: Tensor) -> float:
    """Smallest eigenvalue of ``larger - smaller``: not negative iff larger >= smaller (PSD)."""
    return torch.linalg.eigvalsh(larger - smaller)[0].item()


def poincare_order_gap(model: PairwiseField, law: MaskLaw, poincare: float) -> float:
    """Smallest eigenvalue of C_P * I_MLE^-1 - I_K^-1, which the theory puts at 0 or above.

    Notes, section 1.3: the covariance of the pseudolikelihood is at most C_P times that of the
    MLE. Computed as the equivalent C_P * I_K - I_MLE scaled by I_MLE, which needs no inverse of
    an ill-conditioned I_K.
    """
    q, features = model.probabilities(), model.features()
    centred = features - q @ features
    fisher = centred.T @ (q[:, None] * centred)
    values, axes = torch.linalg.eigh(fisher)
    root = axes / values.sqrt()
    return order_gap(poincare * (root.T @ information(model, law) @ root), torch.eye(len(fisher)))
