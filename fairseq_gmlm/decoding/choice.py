"""Choosing a token at each position: the best one, or a sample."""

from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import Tensor

GREEDY_BELOW = 1e-4


def best_tokens(logits: Tensor) -> Tensor:
    """The best token of each row, (N,), from float32 (N, V).

    On a CPU torch's ``max`` with indices takes as long as all the rest of :func:`likeliest`;
    numpy's ``argmax`` is vectorised.
    """
    if logits.device.type == "cpu" and not logits.requires_grad:
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)


def likeliest(logits: Tensor) -> Tuple[Tensor, Tensor]:
    """The best token of each row and its log-probability, (N,), from float32 (N, V).

    The probability of the best token is at least 1 / V, so its logarithm is safe.
    """
    token = best_tokens(logits)
    best = logits.softmax(-1).gather(-1, token[:, None])
    return token, best.squeeze(-1).log()


@dataclass(frozen=True)
class Choice:
    """How tokens are chosen from logits.

    Attributes:
        temperature: divides the logits before sampling; below 1e-4 the best token is taken.
        top_k: sample among the k likeliest; 0: among all.
        top_p: sample among the fewest tokens whose probabilities sum to p; 0: among all.
        rescale: report log-probabilities of the distribution that was sampled from, instead of
            the model's own (PaDIR's rescale_log_probs).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    rescale: bool = False

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ValueError(f"--temperature must be at least 0, not {self.temperature}")
        if self.top_k > 0 and self.top_p > 0:
            raise ValueError("--sampling-topk and --sampling-topp cannot be used together")
        if self.top_p > 1:
            raise ValueError(f"--sampling-topp must be at most 1, not {self.top_p}")

    @property
    def greedy(self) -> bool:
        """No randomness."""
        return self.temperature < GREEDY_BELOW

    def filtered(self, logits: Tensor, temperature: Optional[Tensor] = None) -> Tensor:
        """Logits of the sampling distribution, (N, V); ``temperature`` (N,) replaces the run's."""
        if temperature is None:
            logits = logits / self.temperature
        else:
            logits = logits / temperature.clamp(min=GREEDY_BELOW)[:, None]
        if self.top_k > 0:
            floor = logits.topk(min(self.top_k, logits.size(-1)), -1).values[:, -1:]
            logits = logits.masked_fill(logits < floor, -torch.inf)
        if 0 < self.top_p < 1:
            ordered, index = logits.sort(-1, descending=True)
            probs = ordered.softmax(-1)
            # A token stays while the mass before it is below p, so the best one always stays.
            cut = (probs.cumsum(-1) - probs) >= self.top_p
            logits = logits.masked_fill(cut.scatter(-1, index, cut), -torch.inf)
        return logits

    def pick(
        self, logits: Tensor, uniform: Tensor, temperature: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Choose.

        Args:
            logits: float32 (N, V); forbidden tokens at -inf.
            uniform: float (N,), draws in [0, 1); not read if greedy.
            temperature: float (N,), one for each position in place of the run's; below 1e-4 the
                best token is taken there.

        Returns:
            tokens (N,), their log-probabilities (N,), log-probabilities of the best tokens (N,).
        """
        if self.greedy and temperature is None:
            token, top = likeliest(logits)
            return token, top, top
        best, token = logits.max(-1)
        log_z = logits.logsumexp(-1)
        top = best - log_z
        sampled, scores = self._sample(logits, log_z, uniform, temperature)
        if temperature is None:
            return sampled, scores, top
        sure = temperature < GREEDY_BELOW
        return torch.where(sure, token, sampled), torch.where(sure, top, scores), top

    def _sample(
        self, logits: Tensor, log_z: Tensor, uniform: Tensor, temperature: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor]:
        """Tokens (N,) by inverting the cumulative distribution, and their log-probabilities."""
        filtered = self.filtered(logits, temperature)
        mass = filtered.softmax(-1).cumsum(-1)
        # Scaled by the total, which rounding leaves a little off 1.
        token = torch.searchsorted(
            mass, (uniform.to(mass.dtype) * mass[:, -1])[:, None], right=True
        )
        token = token.clamp_(max=logits.size(-1) - 1)
        # Rounding may land on a zero-probability neighbour; the best token stands in.
        dead = filtered.gather(-1, token).isinf()
        token = torch.where(dead, filtered.argmax(-1, keepdim=True), token)
        scores = (filtered.log_softmax(-1) if self.rescale else logits - log_z[:, None]).gather(
            -1, token
        )
        return token.squeeze(-1), scores.squeeze(-1)
