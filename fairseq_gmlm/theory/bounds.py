"""The finite-sample bound of the notes' section 1.4, computed beside what it bounds."""

import math
from dataclasses import dataclass

from fairseq_gmlm.theory.conditionals import conditional_tables
from fairseq_gmlm.theory.constants import entropy_constant
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.states import kl_divergence, total_variation


@dataclass
class JointQuality:
    """How far a learned joint is from the truth, and how far it can be.

    With excess = L_PL(theta) - L_PL(q) = E_K E KL(q(.|x_-K) || p(.|x_-K)):
    KL(q || p) <= C_AT(p) * excess, and by Pinsker TV <= sqrt(C_AT(p) * excess / 2).

    Attributes:
        kl: KL(q || p) in nats, exact.
        total_variation: exact.
        excess: excess population loss of the learned conditionals, nats a mask.
        constant_lower: best lower bound found on C_AT(p).
        constant_upper: proven upper bound on C_AT(p).
        kl_bound: ``constant_upper * excess``; it holds for certain.
        total_variation_bound: ``sqrt(constant_upper * excess / 2)``; it holds for certain.
        total_variation_bound_lower: the same with ``constant_lower``: no bound can be smaller,
            and where optimisation found the supremum it is the bound.
    """

    kl: float
    total_variation: float
    excess: float
    constant_lower: float
    constant_upper: float
    kl_bound: float
    total_variation_bound: float
    total_variation_bound_lower: float


def excess_loss(truth: PairwiseField, learned: PairwiseField, law: MaskLaw) -> float:
    """E_K E KL(q(.|x_-K, K) || p(.|x_-K, K)) in nats.

    Raises:
        ValueError: models of different size.
    """
    if (truth.num_sites, truth.alphabet_size) != (learned.num_sites, learned.alphabet_size):
        raise ValueError(
            f"the truth has {truth.num_sites} sites of {truth.alphabet_size} symbols, the learned "
            f"model {learned.num_sites} of {learned.alphabet_size}"
        )
    q, p = truth.probabilities(), learned.probabilities()
    total = 0.0
    for table in conditional_tables(truth.space, law):
        ours, theirs = table.joint_weights(law, q), table.joint_weights(law, p)
        mass = ours.sum(1, keepdim=True)
        right = theirs / theirs.sum(1, keepdim=True).clamp_min(1e-300)
        total += (mass[:, 0] * kl_divergence(ours / mass.clamp_min(1e-300), right)).sum().item()
    return total


def joint_quality(
    truth: PairwiseField, learned: PairwiseField, law: MaskLaw, starts: int = 2
) -> JointQuality:
    """Distance of the joints, and the bound on it from the conditionals.

    Args:
        starts: random starts of the search for C_AT (see ``entropy_constant``).

    Raises:
        ValueError: models of different size, or more than 2^12 states.
    """
    excess = max(0.0, excess_loss(truth, learned, law))
    constant = entropy_constant(learned, law, starts)
    q, p = truth.probabilities(), learned.probabilities()
    return JointQuality(
        kl=kl_divergence(q, p).item(),
        total_variation=total_variation(q, p).item(),
        excess=excess,
        constant_lower=constant.lower,
        constant_upper=constant.upper,
        kl_bound=constant.upper * excess,
        total_variation_bound=math.sqrt(constant.upper * excess / 2),
        total_variation_bound_lower=math.sqrt(constant.lower * excess / 2),
    )
