"""What the encoder hands to the decoder, once per sentence."""

from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple

from torch import Tensor


@dataclass
class Memory:
    """An encoded batch of sources.

    Attributes:
        states: (B, S, d), last encoder states.
        real: bool (B, S), False at padding.
        mask: bool (B, 1, 1, S) for attention, or None where nothing is padded.
        cross: per decoder layer, keys and values (B, heads, S, head_dim).
        length_state: (B, d), state of the length token, where the model has one.
    """

    states: Tensor
    real: Tensor
    mask: Optional[Tensor]
    cross: List[Tuple[Tensor, Tensor]]
    length_state: Optional[Tensor] = None

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Memory":
        apply = lambda x: None if x is None else change(x)  # noqa: E731
        return Memory(
            states=apply(self.states),
            real=apply(self.real),
            mask=apply(self.mask),
            cross=[(apply(k), apply(v)) for k, v in self.cross],
            length_state=apply(self.length_state),
        )

    def select(self, index: Tensor) -> "Memory":
        """The sentences ``index`` (int64) of the batch."""
        return self._map(lambda x: x.index_select(0, index))

    def detach(self) -> "Memory":
        """The same values, without gradient."""
        return self._map(lambda x: x.detach())
