"""Positions: sinusoidal, learned, and T5's relative buckets."""

import math
from typing import Optional

import torch
from torch import Tensor, nn


def position_numbers(real: Tensor, padding_idx: int) -> Tensor:
    """fairseq's position ids: padding_idx + 1, + 2, ... over real tokens, padding_idx elsewhere.

    Counted along real tokens only, so that left and right padding give the same ids.

    Args:
        real: bool (B, T).
        padding_idx: row of the table that stands for padding.

    Returns:
        int64 (B, T).
    """
    return real.long().cumsum(1) * real + padding_idx


def sinusoid_table(rows: int, width: int, padding_idx: Optional[int] = None) -> Tensor:
    """fairseq's (tensor2tensor's) table: sines in the first half, cosines in the second."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(rows, dtype=torch.float)[:, None] * rates[None]
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    if width % 2:
        table = torch.cat([table, torch.zeros(rows, 1)], dim=1)
    if padding_idx is not None:
        table[padding_idx] = 0
    return table


class SinusoidalPositions(nn.Module):
    """Fixed absolute positions. (B, T) bool -> (B, T, width)."""

    def __init__(self, positions: int, width: int, padding_idx: int) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        table = sinusoid_table(positions + padding_idx + 1, width, padding_idx)
        self.register_buffer("table", table, persistent=False)

    def forward(self, real: Tensor) -> Tensor:
        return self.table[position_numbers(real, self.padding_idx)]


class LearnedPositions(nn.Embedding):
    """Trained absolute positions; weights laid out as in fairseq. (B, T) bool -> (B, T, width)."""

    def __init__(self, positions: int, width: int, padding_idx: int) -> None:
        super().__init__(positions + padding_idx + 1, width, padding_idx)
        nn.init.normal_(self.weight, mean=0, std=width**-0.5)
        nn.init.zeros_(self.weight[padding_idx])

    def forward(self, real: Tensor) -> Tensor:
        return super().forward(position_numbers(real, self.padding_idx))


def build_positions(learned: bool, positions: int, width: int, padding_idx: int) -> nn.Module:
    """Learned or sinusoidal positions for up to ``positions`` tokens."""
    kind = LearnedPositions if learned else SinusoidalPositions
    return kind(positions, width, padding_idx)


def relative_bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """T5's bidirectional bucket of ``key position - query position``.

    Half of the buckets are for each sign; half of these for exact small distances, the others grow
    logarithmically up to ``max_distance``, beyond which all share the last.
    """
    half = buckets // 2
    bucket = (distance > 0).long() * half
    distance = distance.abs()
    exact = half // 2
    log_ratio = (distance.float().clamp(min=1) / exact).log() / math.log(max_distance / exact)
    far = (exact + (log_ratio * (half - exact)).long()).clamp(max=half - 1)
    return bucket + torch.where(distance < exact, distance, far)


class RelativeBias(nn.Module):
    """One learned bias per bucket and head, shared by the layers of a stack (spec: 32, 128)."""

    def __init__(self, buckets: int, max_distance: int, heads: int) -> None:
        super().__init__()
        self.buckets, self.max_distance = buckets, max_distance
        self.weight = nn.Parameter(torch.empty(buckets, heads).normal_(std=0.1))

    def forward(self, length: int) -> Tensor:
        """Bias added to attention scores, (1, heads, length, length)."""
        place = torch.arange(length, device=self.weight.device)
        bucket = relative_bucket(place[None] - place[:, None], self.buckets, self.max_distance)
        return self.weight[bucket].permute(2, 0, 1)[None]


class ClippedDistances(nn.Module):
    """u-PMLM-R's positions: a fixed sinusoid row per clipped distance (spec 7.2).

    One table for all heads and layers; a row for each of -clip .. clip. Nothing is trained, so any
    length can be read, also one longer than those seen in training.
    """

    def __init__(self, width: int, clip: int = 127) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("table", sinusoid_table(2 * clip + 1, width), persistent=False)

    def forward(self, length: int) -> Tensor:
        """Row of (query i, key j): distance j - i, (length, length, width)."""
        place = torch.arange(length, device=self.table.device)
        distance = (place[None] - place[:, None]).clamp(-self.clip, self.clip)
        return self.table[distance + self.clip]
