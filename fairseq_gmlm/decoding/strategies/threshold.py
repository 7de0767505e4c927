"""Threshold: in each pass all predictions that are sure enough are kept, at least one."""

import math
from typing import Any

from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.any_order import Revealing


class Threshold(Revealing):
    """Keeps every masked position whose chosen token has at least probability ``threshold``.

    The number of passes then depends on the text: few where it is easy. Where nothing reaches the
    threshold the surest one is kept, or as many as the passes left demand.
    """

    def __init__(self, threshold: float = 0.9) -> None:
        super().__init__(1)
        if not 0.0 < threshold <= 1.0:
            raise ValueError(f"--decode-threshold must be above 0 and at most 1, not {threshold}")
        self.threshold = threshold

    @classmethod
    def of(cls, options: Any) -> "Threshold":
        """Reads ``decode_threshold``."""
        return cls(options.decode_threshold)

    def chosen(self, state: ChainState, prediction: Prediction, count: Tensor) -> Tensor:
        """Those above the threshold, and the surest that are due."""
        sure = state.pending & (prediction.scores >= math.log(self.threshold))
        return sure | lowest(-prediction.scores, state.pending, count)
