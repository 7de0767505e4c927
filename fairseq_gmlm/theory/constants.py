"""Functional-inequality constants of a law and a block law: Poincare and entropy (notes, 1.3)."""

import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.theory.chains import block_gibbs_matrix
from fairseq_gmlm.theory.conditionals import conditional_tables
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw


def poincare_constant(model: PairwiseField, law: MaskLaw) -> float:
    """C_P = 1 / spectral gap of "draw K, resample X_K given X_-K (and K)".

    Smallest C with Var(f) <= C * E_K E[Var(f | x_-K, K)] for every f. Infinite when some site
    is never masked, or the gap is below double precision (1e-14).

    Raises:
        ValueError: more than 2^12 states.
    """
    return _spectrum(model, law)[0]


def _spectrum(model: PairwiseField, law: MaskLaw) -> Tuple[float, Tensor]:
    """C_P, and the function ``(S,)`` that attains it."""
    root = model.probabilities().sqrt()
    matrix = block_gibbs_matrix(model, law)
    symmetric = root[:, None] * matrix / root
    values, vectors = torch.linalg.eigh((symmetric + symmetric.T) / 2)
    gap = 1 - values[-2].item()
    slowest = vectors[:, -2] / root
    return (1 / gap if gap > 1e-14 else math.inf), slowest


@dataclass
class EntropyConstant:
    """What is known of C_AT, the constant of approximate tensorization of entropy.

    Attributes:
        lower: largest ratio found; every ratio is a certificate, as it is attained by ``witness``
            (and C_AT >= C_P always).
        upper: a proven upper bound, infinite when some site is never masked.
        witness: a law r ``(S,)`` with KL(r || q) = lower * E KL(r(.|x_-K) || q(.|x_-K)); None
            when ``lower`` is C_P, which is only approached as r tends to q.
        upper_from: the argument behind ``upper``.
    """

    lower: float
    upper: float
    witness: Optional[Tensor]
    upper_from: str


class EntropyRatio:
    """KL(r || q) and E_K E_r KL(r(.|x_-K, K) || q(.|x_-K, K)) for laws r (nats)."""

    def __init__(self, model: PairwiseField, law: MaskLaw) -> None:
        self.log_q = model.log_probabilities()
        q = self.log_q.exp()
        tables = conditional_tables(model.space, law)
        self.parts = [(table.states, table.joint_weights(law, q)) for table in tables]

    def __call__(self, log_r: Tensor) -> Tuple[Tensor, Tensor]:
        """Both sides of the inequality for ``log_r (S,)``, normalised or not."""
        log_r = torch.log_softmax(log_r, 0)
        ratio = (log_r - self.log_q).exp()  # f = dr/dq, of mean 1
        # x log x - x + 1 has no cancellation near 1, where the constant is often attained.
        whole = (self.log_q.exp() * _entropy_term(ratio)).sum()
        inside = whole.new_zeros(())
        for states, weights in self.parts:
            mass = weights.sum(1)
            mean = (weights * ratio[states]).sum(1) / mass.clamp_min(1e-300)
            local = _entropy_term(ratio[states] / mean.clamp_min(1e-300)[:, None])
            inside = inside + (weights * mean[:, None] * local).sum()
        return whole, inside


def _entropy_term(x: Tensor) -> Tensor:
    return torch.xlogy(x, x) - x + 1


def entropy_constant(
    model: PairwiseField, law: MaskLaw, starts: int = 4, seed: int = 0
) -> EntropyConstant:
    """Bounds on the smallest C with KL(r || q) <= C * E_{K,r} KL(r(.|x_-K) || q(.|x_-K)), all r.

    The lower bound climbs the ratio by L-BFGS from the slowest function of the block chain (both
    signs, small and large), from single states and from ``starts`` random laws; it is never
    below C_P. The upper bound is that of :func:`entropy_upper_bound`.

    Raises:
        ValueError: more than 2^12 states.
    """
    poincare, slowest = _spectrum(model, law)
    if not law.covers():
        return EntropyConstant(math.inf, math.inf, None, "a site is never masked")
    upper, reason = entropy_upper_bound(model, law, poincare)
    functional = EntropyRatio(model, law)
    log_q = functional.log_q
    best, witness = (1.0 if math.isinf(poincare) else poincare), None
    for start in _starting_laws(log_q, slowest, starts, seed):
        log_r = _climb(functional, start)
        whole, inside = (side.item() for side in functional(log_r))
        # Below this size the quotient is rounding, and close to C_P anyway.
        if inside > 1e-9 and whole / inside > best:
            best, witness = whole / inside, torch.softmax(log_r, 0)
    return EntropyConstant(min(best, upper), upper, witness, reason)


def _starting_laws(log_q: Tensor, slowest: Tensor, starts: int, seed: int) -> List[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    slowest = slowest / slowest.abs().max()
    laws = [log_q + size * slowest for size in (-4.0, -0.5, 0.5, 4.0)]
    for state in (0, len(log_q) - 1, int(log_q.argmin()), int(log_q.argmax())):
        bump = torch.zeros_like(log_q)
        bump[state] = 6.0
        laws.append(log_q + bump)
    for _ in range(starts):
        laws.append(log_q + 2 * torch.randn(log_q.shape, generator=generator, dtype=torch.double))
    return laws


def _climb(functional: EntropyRatio, start: Tensor) -> Tensor:
    tilt = torch.zeros_like(start).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [tilt], max_iter=60, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )
    best = (-math.inf, start)

    def closure() -> Tensor:
        nonlocal best
        optimizer.zero_grad()
        whole, inside = functional(start + tilt)
        # Both vanish together as r tends to q; the logarithms keep the climb well scaled.
        loss = inside.clamp_min(1e-12).log() - whole.clamp_min(1e-12).log()
        loss.backward()
        if inside.item() > 1e-9 and -loss.item() > best[0]:
            best = (-loss.item(), (start + tilt).detach().clone())
        return loss

    optimizer.step(closure)
    return best[1]


def entropy_upper_bound(model: PairwiseField, law: MaskLaw, poincare: float) -> Tuple[float, str]:
    """A proven upper bound on C_AT, and the argument behind it; the least of

    - Shearer: 1 / min_g P(g in K) over the independent parts g of the model; for a product law
      and uniform blocks it is N / k, and exact;
    - Holley-Stroock: against a product law p, exp(oscillation of log q/p) times p's;
    - log-Sobolev: C_P * log(1/q_min - 1) / (1 - 2 q_min), since Ent f^2 is at most that factor
      times Var f on any finite space (Diaconis and Saloff-Coste) and Var f at most Ent f^2.

    Args:
        poincare: C_P of the model and the law, which must mask every site.
    """
    q = model.probabilities()
    smallest = q.min().item()
    if smallest >= 0.5:
        factor = 2.0  # the limit of the formula at two equally likely states
    elif smallest > 0:
        factor = math.log(1 / smallest - 1) / (1 - 2 * smallest)
    else:
        factor = math.inf  # a state too rare for double precision
    bounds = [(poincare * factor, "log-Sobolev constant of the block chain")]
    if not law.adaptive:
        shearer = 1 / (law.probabilities @ law.blocks.double()).min().item()
        log_q = model.log_probabilities()
        for product in (model.unary, _log_margins(model, q)):
            independent = torch.log_softmax(product, -1)
            states = model.space.states()
            log_p = independent.expand(len(q), -1, -1).gather(-1, states[..., None]).sum((1, 2))
            swing = (log_q - log_p).max() - (log_q - log_p).min()
            bounds.append((shearer * swing.exp().item(), "Holley-Stroock against a product law"))
        whole = [law.blocks[:, part].all(1).double() for part in _independent_parts(model)]
        mass = (torch.stack(whole) @ law.probabilities).min().item()
        if mass > 0:
            bounds.append((1 / mass, "Shearer over independent parts"))
    return min(bounds)


def _independent_parts(model: PairwiseField) -> List[List[int]]:
    """Connected components of the interaction graph."""
    linked = (model.pair.abs().amax((2, 3)) > 0) | torch.eye(model.num_sites, dtype=torch.bool)
    for _ in range(model.num_sites.bit_length()):
        linked = (linked.double() @ linked.double()) > 0
    return [row.nonzero()[:, 0].tolist() for row in torch.unique(linked, dim=0)]


def _log_margins(model: PairwiseField, q: Tensor) -> Tensor:
    states = model.space.states()
    margins = torch.zeros(model.num_sites, model.alphabet_size).double()
    for symbol in range(model.alphabet_size):
        margins[:, symbol] = q @ (states == symbol).double()
    return margins.clamp_min(1e-300).log()
