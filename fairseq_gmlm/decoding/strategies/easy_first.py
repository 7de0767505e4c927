"""Easy first: in each pass the surest predictions are kept, and never taken back."""

from typing import Any

from torch import Tensor

from fairseq_gmlm.decoding.remasking import lowest
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.any_order import Revealing


class EasyFirst(Revealing):
    """Keeps the n masked positions whose chosen tokens are likeliest (DisCo, MaskGIT)."""

    @classmethod
    def of(cls, options: Any) -> "EasyFirst":
        """Reads ``positions_per_pass``."""
        return cls(options.positions_per_pass)

    def chosen(self, state: ChainState, prediction: Prediction, count: Tensor) -> Tensor:
        """The surest."""
        return lowest(-prediction.scores, state.pending, count)
