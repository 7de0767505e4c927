"""Sums over a corpus: perplexities per token and per word, with standard errors."""

import math
from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch import Tensor


def perplexity(log_likelihood: float, units: int) -> float:
    """exp(-log-likelihood / units); infinite where it overflows, nan without any unit."""
    if units == 0:
        return math.nan
    exponent = -log_likelihood / units
    return math.inf if exponent > 700 else math.exp(exponent)


@dataclass
class Total:
    """A score summed over texts.

    Attributes:
        log_likelihood: nats; the mean over draws where there are several.
        variance: of that sum over the draws, or None where nothing is random.
        draws: number of draws of each text.
    """

    log_likelihood: float = 0.0
    variance: Optional[float] = None
    draws: int = 1

    def add(self, scores: Tensor) -> None:
        """Take in scores of more texts: (texts,), or (draws, texts) for random ones."""
        if scores.dim() == 1:
            self.log_likelihood += float(scores.sum())
            return
        self.draws = scores.size(0)
        self.log_likelihood += float(scores.mean(0).sum())
        # Draws of different texts are independent, so their variances add up.
        spread = scores.var(0).sum() if self.draws > 1 else torch.tensor(math.nan)
        self.variance = (self.variance or 0.0) + float(spread) / self.draws

    def report(self, tokens: int, words: int) -> Dict[str, float]:
        """Perplexities and, where there are draws, standard errors (first order for perplexities)."""
        per_token = perplexity(self.log_likelihood, tokens)
        found = {
            "log_likelihood": self.log_likelihood,
            "perplexity_per_token": per_token,
            "perplexity_per_word": perplexity(self.log_likelihood, words),
        }
        if self.variance is not None:
            error = math.sqrt(self.variance)
            found["draws"] = self.draws
            found["log_likelihood_standard_error"] = error
            found["perplexity_per_token_standard_error"] = per_token * error / max(tokens, 1)
        return found
