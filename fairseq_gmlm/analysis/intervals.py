"""Bootstrap intervals of rates over sentences (sentences are drawn, not tokens)."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

_CHUNK = 64  # resamples turned into floats at once


@dataclass(frozen=True)
class Rate:
    """A ratio of sums over sentences, with a 95 % percentile interval.

    Attributes:
        value: None if there was no case to look at.
        low, high: ends of the interval; None where a resample may have no case.
        found, total: the two sums.
    """

    value: Optional[float]
    low: Optional[float]
    high: Optional[float]
    found: float
    total: float

    def as_json(self) -> Dict[str, Any]:
        """Plain numbers."""
        return asdict(self)


class Bootstrap:
    """Draws sentences with replacement; the same draws for every quantity, so that they compare.

    Args:
        samples: resamples.
        seed: of the draws.
    """

    def __init__(self, samples: int = 1000, seed: int = 1) -> None:
        if samples < 1:
            raise ValueError(f"--bootstrap must be at least 1, not {samples}")
        self.samples, self.seed = samples, seed
        self._drawn: Dict[int, List[Tensor]] = {}

    def sums(self, values: Tensor) -> Tensor:
        """Sums over resampled sentences, float64 (samples, k), from values (N, k)."""
        if values.size(0) == 0:
            return values.new_zeros(self.samples, values.size(1)).double()
        return torch.cat([times.double() @ values.double() for times in self._draws(len(values))])

    def _draws(self, count: int) -> List[Tensor]:
        """How often each of ``count`` sentences is drawn, int16 (resamples, count) a piece."""
        if count not in self._drawn:
            rng = torch.Generator().manual_seed(self.seed)
            pieces = []
            for start in range(0, self.samples, _CHUNK):
                size = min(_CHUNK, self.samples - start)
                drawn = torch.randint(count, (size, count), generator=rng)
                times = torch.zeros(size, count, dtype=torch.int16)
                pieces.append(times.scatter_add_(1, drawn, torch.ones_like(times)))
            self._drawn[count] = pieces
        return self._drawn[count]

    def rate(self, found: Sequence[float], total: Sequence[float]) -> Rate:
        """sum(found) / sum(total), one entry of each per sentence."""
        pair = torch.tensor([list(found), list(total)], dtype=torch.float64).T
        above, below = pair.sum(0).tolist()
        if below == 0:
            return Rate(None, None, None, above, below)
        low = high = None
        if int(pair[:, 1].count_nonzero()) > 1:  # one sentence says nothing of the spread
            sums = self.sums(pair)
            low, high = _ends(sums[:, 0] / sums[:, 1])
        return Rate(above / below, low, high, above, below)

    def difference(self, first: Tensor, second: Tensor) -> Rate:
        """Ratio of sums ``first`` minus that of ``second``, each float (N, 2): found and total.

        ``found`` and ``total`` of the result are the two ratios' totals.
        """
        whole = torch.cat([first, second], 1).double().sum(0)
        if whole[1] == 0 or whole[3] == 0:
            return Rate(None, None, None, float(whole[1]), float(whole[3]))
        sums = self.sums(torch.cat([first, second], 1))
        low, high = _ends(sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3])
        value = float(whole[0] / whole[1] - whole[2] / whole[3])
        return Rate(value, low, high, float(whole[1]), float(whole[3]))


def _ends(values: Tensor) -> tuple:
    """2.5 and 97.5 per cent quantiles, or None where some resample has no case."""
    if not bool(values.isfinite().all()):
        return None, None
    ends = torch.quantile(values, torch.tensor([0.025, 0.975], dtype=values.dtype))
    return float(ends[0]), float(ends[1])
