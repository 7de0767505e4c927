"""Running statistics of length ratios."""

import math
from typing import Dict, Optional


class LengthRatios:
    """Mean, deviation and range of ratios of lengths, without keeping them."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0
        self.smallest = math.inf
        self.largest = -math.inf
        self.numerators = 0
        self.denominators = 0

    def add(self, numerator: int, denominator: int) -> None:
        """Count one pair of lengths; a pair with an empty denominator has no ratio."""
        if denominator == 0:
            return
        ratio = numerator / denominator
        self.count += 1
        self.numerators += numerator
        self.denominators += denominator
        # Welford's update: sums of squares lose digits over millions of lines.
        difference = ratio - self.mean
        self.mean += difference / self.count
        self._squares += difference * (ratio - self.mean)
        self.smallest = min(self.smallest, ratio)
        self.largest = max(self.largest, ratio)

    def summary(self) -> Optional[Dict[str, float]]:
        """Corpus ratio, and mean, deviation, smallest and largest of the sentences' ratios."""
        if self.count == 0:
            return None
        return {
            "corpus": self.numerators / self.denominators,
            "mean": self.mean,
            "std": math.sqrt(self._squares / self.count),
            "min": self.smallest,
            "max": self.largest,
        }
