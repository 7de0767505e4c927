"""Length predictors: how long the target is, before any of it is there.

A length counts every token of the canvas, BOS and EOS included, as fairseq's NAT does.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_gmlm.losses import at_least_float32
from fairseq_gmlm.models.memory import Memory

SHORTEST = 2  # BOS and EOS around nothing


class LengthLoss(NamedTuple):
    """Sums over sentences.

    Attributes:
        loss: with gradient: cross-entropy in nats, or squared error in tokens^2.
        correct: number of exact predictions.
        squared: which of the two.
    """

    loss: Tensor
    correct: Tensor
    squared: bool = False


class LengthClassifier(nn.Module):
    """A class per length, from the mean encoder state (NAT) or a length token's state (PaDIR)."""

    def __init__(self, width: int, longest: int, from_token: bool) -> None:
        super().__init__()
        self.longest, self.from_token = longest, from_token
        self.weight = nn.Parameter(torch.empty(longest + 1, width))
        # From zero all lengths are alike; from noise an untrained head would pick absurd ones.
        nn.init.zeros_(self.weight)

    def forward(self, memory: Memory) -> Tensor:
        """Logits over lengths 0 .. longest, (B, longest + 1)."""
        dtype = self.weight.dtype  # float32 also where the rest decodes in fewer bits
        if self.from_token:
            return F.linear(memory.length_state.to(dtype), self.weight)
        states, real = memory.states.to(dtype), memory.real.unsqueeze(-1).to(dtype)
        mean = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return F.linear(mean, self.weight)

    def loss(self, output: Tensor, length: Tensor, smoothing: float) -> LengthLoss:
        """Cross-entropy, in nats; lengths beyond the table count as its last."""
        target = length.clamp(max=self.longest)
        logits = at_least_float32(output)
        loss = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
        return LengthLoss(loss, (output.argmax(-1) == target).sum())

    def candidates(self, output: Tensor, count: int) -> Tuple[Tensor, Tensor]:
        """The ``count`` likeliest lengths, best first: lengths and log-probabilities (B, count).

        Lengths without room for a word are left out, so that candidates differ.
        """
        shortest = SHORTEST + 1
        log_probs = output.float().log_softmax(-1)[:, shortest:]
        scores, lengths = log_probs.topk(min(count, log_probs.size(1)), dim=1)
        return lengths + shortest, scores


class RelativeLengthClassifier(LengthClassifier):
    """The mean state's classes plus a learned bias for each difference to the source's length.

    A mean state hardly tells how long its sentence is; the count itself does. The biases start at
    a bell around equal lengths, so that even an untrained model asks for sensible canvases.
    """

    def __init__(self, width: int, longest: int) -> None:
        super().__init__(width, longest, from_token=False)
        difference = torch.arange(-longest, longest + 1, dtype=torch.float)
        self.bias = nn.Parameter((-0.5 * (difference / 4).square()).clamp(min=-10.0))

    def forward(self, memory: Memory) -> Tensor:
        """Logits over lengths 0 .. longest, (B, longest + 1)."""
        # BOS stands in the target alone, EOS on both sides.
        equal = (memory.real.sum(1) + 1).clamp(max=self.longest)
        lengths = torch.arange(self.longest + 1, device=equal.device)
        return super().forward(memory) + self.bias[lengths - equal[:, None] + self.longest]


class ScalarLength(nn.Module):
    """Base of predictors that give one number, trained by squared error; no second guess."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.longest = longest

    def loss(self, output: Tensor, length: Tensor, smoothing: float) -> LengthLoss:
        """Sum of squared errors (spec 3.3)."""
        target = length.clamp(max=self.longest)
        correct = (output.round() == target).sum()
        return LengthLoss((at_least_float32(output) - target).square().sum(), correct, squared=True)

    def candidates(self, output: Tensor, count: int) -> Tuple[Tensor, Tensor]:
        """The rounded prediction.

        Raises:
            ValueError: more than one length is asked for.
        """
        if count > 1:
            raise ValueError(
                f"this length predictor gives one length, not {count}; use "
                "--length-offset-beam for neighbours, or a classifier (--length-predictor pooled)"
            )
        lengths = output.round().long().clamp(SHORTEST, self.longest)[:, None]
        return lengths, torch.zeros_like(lengths, dtype=torch.float)


class AffineLength(ScalarLength):
    """a * (source tokens) + b, from a = 1, b = 0 (PaDIR), plus the frame of BOS."""

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self.slope = nn.Parameter(torch.ones(()))
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, memory: Memory) -> Tensor:
        """(B,)."""
        # The source counts its EOS; the target has BOS besides.
        return self.slope * memory.real.sum(1).to(self.slope.dtype) + self.offset + 1


class FertilityLength(ScalarLength):
    """Sum over source tokens of 1 + an expected offset in -(k+1)..k, times a, plus b (PaDIR)."""

    def __init__(self, width: int, longest: int, most: int) -> None:
        super().__init__(longest)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, 2 * most + 2)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)
        self.factor = nn.Parameter(torch.ones(()))
        self.offset = nn.Parameter(torch.ones(()))
        self.register_buffer(
            "offsets", torch.arange(-(most + 1), most + 1, dtype=torch.float), persistent=False
        )

    def forward(self, memory: Memory) -> Tensor:
        """(B,). Encoder states get no gradient (spec 3.5)."""
        states = memory.states.detach().to(self.inner.weight.dtype)
        probs = at_least_float32(self.outer(F.gelu(self.inner(states)))).softmax(-1)
        fertility = 1 + (probs * self.offsets).sum(-1)
        return self.factor * (fertility * memory.real).sum(1) + self.offset


class OracleLength(nn.Module):
    """Takes the reference's length when decoding; nothing to train."""

    def forward(self, memory: Memory) -> Tensor:
        """A placeholder, (B,)."""
        return memory.states.new_zeros(memory.states.size(0))

    def loss(self, output: Tensor, length: Tensor, smoothing: float) -> LengthLoss:
        """Zero."""
        return LengthLoss(output.sum(), output.new_zeros(()))

    def candidates(self, output: Tensor, count: int) -> Tuple[Tensor, Tensor]:
        """Never: the generator takes the reference's length.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "a model with --length-predictor oracle decodes only with --oracle-length on data "
            "that has references"
        )


def build_length_predictor(cfg: Any) -> nn.Module:
    """The predictor that ``--length-predictor`` names."""
    kind = "pooled" if cfg.stock_cmlm else str(cfg.length_predictor)
    width = cfg.encoder_embed_dim
    longest = min(cfg.max_target_positions, 255) if cfg.stock_cmlm else cfg.max_target_positions
    if kind == "relative":
        return RelativeLengthClassifier(width, longest)
    if kind in ("pooled", "token"):
        return LengthClassifier(width, longest, from_token=kind == "token")
    if kind == "affine":
        return AffineLength(longest)
    if kind == "fertility":
        return FertilityLength(width, longest, cfg.max_fertility)
    return OracleLength()


def length_target(real: Tensor) -> Tensor:
    """Reference lengths (B,) of targets with BOS and EOS, from bool (B, T)."""
    return real.sum(1)


def offset_beam(lengths: Tensor, scores: Tensor, beam: int, longest: int) -> Tuple[Tensor, Tensor]:
    """Add the neighbours of each length: offsets -h..h around it, clipped (PaDIR's beam_length).

    Args:
        lengths, scores: (B, K), lengths and their log-probabilities.
        beam: odd number of offsets.
        longest: upper bound.

    Returns:
        (B, K * beam), neighbours of one length side by side.

    Raises:
        ValueError: ``beam`` is even or below 1.
    """
    if beam < 1 or beam % 2 == 0:
        raise ValueError(f"--length-offset-beam must be odd and at least 1, not {beam}")
    offsets = torch.arange(beam, device=lengths.device) - beam // 2
    wide = (lengths[:, :, None] + offsets).clamp(SHORTEST, longest).flatten(1)
    return wide, scores[:, :, None].expand(-1, -1, beam).flatten(1)


def true_length(target: Optional[Tensor], pad: int) -> Tensor:
    """The oracle's lengths (B, 1).

    Raises:
        ValueError: there are no references.
    """
    if target is None:
        raise ValueError("--oracle-length needs references; this data has none")
    return target.ne(pad).sum(1, keepdim=True)
