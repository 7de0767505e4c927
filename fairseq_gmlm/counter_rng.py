"""Random numbers as a pure function of (seed, row, column, stream).

A stateful generator would give a sentence other noise whenever its batch changes. Here every draw
is a hash of its coordinates, so a sentence is corrupted, started and sampled alike whatever batch
it is in, on whatever device, with whatever number of processes, and after any restart.
"""

from typing import Sequence, Union

import torch
from torch import Tensor

# splitmix64's increment and multipliers, as signed 64-bit integers.
_INCREMENT = -7046029254386353131
_MULTIPLIER_1 = -4658895280553007687
_MULTIPLIER_2 = -7723592293110705685


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's own keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """The finaliser of splitmix64, elementwise on int64 (wrapping)."""
    x = x + _INCREMENT
    x = (x ^ _shift_right(x, 30)) * _MULTIPLIER_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLIER_2
    return x ^ _shift_right(x, 31)


def row_keys(tokens: Tensor, real: Tensor) -> Tensor:
    """A key for each row from its own content, blind to padding and to the batch.

    Args:
        tokens: int64, shape (rows, length).
        real: bool, same shape; False where a token is padding.

    Returns:
        int64, shape (rows,).
    """
    place = real.long().cumsum(1)
    return (
        mix((mix(tokens.long()) ^ mix(-place)).masked_fill(~real, 0)).masked_fill(~real, 0).sum(1)
    )


class CounterRNG:
    """Draws keyed by rows.

    Args:
        seed: integer or integers that set this generator apart (run seed, update, ...).
        rows: int64 keys, shape (rows,), one for each row (sample ids, or :func:`row_keys`).
    """

    def __init__(self, seed: Union[int, Sequence[int]], rows: Tensor) -> None:
        key = torch.zeros_like(rows, dtype=torch.int64)
        for part in [seed] if isinstance(seed, int) else seed:
            key = mix(key ^ int(part))
        self.rows = mix(key ^ rows.long())

    def _floats(self, bits: Tensor) -> Tensor:
        # 24 bits are what a float32 in [0, 1) can hold without rounding up to 1.
        return _shift_right(bits, 40).to(torch.float32) * (1.0 / (1 << 24))

    def per_row(self, stream: int) -> Tensor:
        """Uniform floats in [0, 1), shape (rows,). Each ``stream`` is an independent draw."""
        return self._floats(mix(self.rows ^ mix(torch.full_like(self.rows, stream))))

    def per_position(self, stream: int, columns: Tensor) -> Tensor:
        """Uniform floats in [0, 1), shape (rows, length).

        Args:
            stream: which independent draw.
            columns: int64, shape (rows, length) or (length,): the number of each position within
                its sentence, so that left and right padding give the same draws.
        """
        keys = mix(self.rows ^ mix(torch.full_like(self.rows, stream)))
        return self._floats(mix(keys[:, None] + mix(columns.long())))
