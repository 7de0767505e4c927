"""Corruption: which positions of a target are hidden, and by what.

Pure functions on tensors; the random numbers come from :class:`~fairseq_gmlm.counter_rng.CounterRNG`.
"""

from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG

# Streams of the counter generator, one for each independent draw.
_RATIO, _PICK, _KIND, _RANDOM_ID, _KEEP, _RANDOM = range(1, 7)

PRIORS = ("uniform", "fixed", "number")
COUNTS = ("exact", "iid")
DRAWN = -1.0  # stands for "drawn per example" where an option is a probability


@dataclass(frozen=True)
class MaskPrior:
    """How many positions of a sequence are noised.

    Attributes:
        kind: ``uniform``: the ratio is drawn from U[0, ratio) per sequence (PaDIR's density
            ``None``, u-PMLM's prior when ratio is 1). ``fixed``: the ratio is ``ratio``.
            ``number``: ``number`` positions whatever the length (k-MPLE, spec 1.1).
        ratio: upper bound (uniform) or value (fixed), in (0, 1].
        count: ``exact``: uniform over 1..max(1, round(n * ratio)) positions (uniform), or
            max(1, round(n * ratio)) (fixed). ``iid``: each position alone with the drawn ratio,
            so that 0..n can be noised.
        number: how many, for the kind ``number``; at least 1.
    """

    kind: str = "uniform"
    ratio: float = 1.0
    count: str = "exact"
    number: int = 1

    def __post_init__(self) -> None:
        if self.kind not in PRIORS:
            raise ValueError(f"mask prior must be one of {PRIORS}, not {self.kind!r}")
        if self.count not in COUNTS:
            raise ValueError(f"mask count must be one of {COUNTS}, not {self.count!r}")
        if not 0.0 < self.ratio <= 1.0:
            raise ValueError(f"mask ratio must be in (0, 1], not {self.ratio}")
        if self.number < 1:
            raise ValueError(f"mask number must be at least 1, not {self.number}")


@dataclass(frozen=True)
class Replacement:
    """What stands at a noised position: the original token, a random one, or a mask.

    Attributes:
        keep: probability of the original token; ``DRAWN`` (-1) draws it from U[0, .5) per sequence.
        random: probability of a random ordinary token; likewise.
    """

    keep: float = 0.0
    random: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("keep", self.keep), ("random", self.random)):
            if value != DRAWN and not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} probability must be in [0, 1] or -1, not {value}")
        if max(self.keep, 0.0) + max(self.random, 0.0) > 1.0:
            raise ValueError(f"keep + random must be at most 1, not {self.keep + self.random}")
        if DRAWN in (self.keep, self.random) and max(self.keep, self.random) > 0.5:
            raise ValueError("a drawn probability goes up to .5, so the other must be at most .5")


class Corruption(NamedTuple):
    """A corrupted batch.

    Attributes:
        tokens: int64 (B, T), what the model sees.
        noised: bool (B, T), positions picked by the prior, also those that kept their token.
        masked: bool (B, T), positions that show a mask symbol.
    """

    tokens: Tensor
    noised: Tensor
    masked: Tensor


def columns(real: Tensor) -> Tensor:
    """Number of each position among the real ones of its row, from 0; (B, T) from bool (B, T)."""
    return (real.long().cumsum(1) - 1).clamp_(min=0)


def pick_positions(maskable: Tensor, prior: MaskPrior, rng: CounterRNG, place: Tensor) -> Tensor:
    """Positions to noise.

    Args:
        maskable: bool (B, T), positions that may be noised.
        prior: how many.
        rng: keyed by the rows of ``maskable``.
        place: int64 (B, T), see :func:`columns`.

    Returns:
        bool (B, T), a subset of ``maskable``. Given its size, every subset is equally likely.
    """
    total = maskable.sum(1)
    ratio_draw = rng.per_row(_RATIO)
    score = rng.per_position(_PICK, place)
    if prior.count == "iid" and prior.kind != "number":
        ratio = ratio_draw * prior.ratio if prior.kind == "uniform" else prior.ratio
        bound = ratio[:, None] if isinstance(ratio, Tensor) else ratio
        return maskable & (score < bound)
    # float32 products such as 10 * .15 fall just short of a half; the nudge keeps round() honest.
    most = (total * prior.ratio + 1e-4).round().clamp(min=1).minimum(total)
    if prior.kind == "number":
        count = total.clamp(max=prior.number)
    elif prior.kind == "uniform":
        count = (1 + (ratio_draw * most).floor()).minimum(most)
    else:
        count = most
    order = score.masked_fill(~maskable, 2.0).argsort(1)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.size(1), device=order.device).expand_as(order)
    )
    return maskable & (rank < count[:, None])


def pick_words(
    maskable: Tensor, begins: Tensor, prior: MaskPrior, rng: CounterRNG, place: Tensor
) -> Tensor:
    """Whole-word masking: as :func:`pick_positions`, but words are picked, with all their tokens.

    Args:
        maskable: bool (B, T), positions that may be noised.
        begins: bool (B, T), where a word begins; a first maskable position always begins one.
        prior: how many *words*: ratios and numbers count words.
        rng: keyed by the rows of ``maskable``.
        place: int64 (B, T), see :func:`columns`.

    Returns:
        bool (B, T), a subset of ``maskable``.
    """
    before = torch.zeros_like(maskable)
    before[:, 1:] = maskable[:, :-1]
    begins = maskable & (begins | ~before)
    picked = pick_positions(begins, prior, rng, place)
    word = columns(begins)
    chosen = torch.zeros_like(word).scatter_add_(1, word, picked.long())
    return maskable & chosen.gather(1, word).bool()


def corrupt(
    target: Tensor,
    maskable: Tensor,
    real: Tensor,
    prior: MaskPrior,
    replacement: Replacement,
    mask_ids: Tensor,
    ordinary: Optional[Tensor],
    rng: CounterRNG,
    noised: Optional[Tensor] = None,
) -> Corruption:
    """Corrupt a batch of targets (PaDIR's noise; u-PMLM's when nothing is kept or random).

    Args:
        target: int64 (B, T).
        maskable: bool (B, T), positions that may be noised (never BOS, EOS or padding).
        real: bool (B, T), positions that are not padding.
        prior: how many positions.
        replacement: what stands there.
        mask_ids: int64 (M,): the mask symbol, or one for each position from the first maskable on.
        ordinary: int64 (V',), ids that a random token may take; may be None if none is drawn.
        rng: keyed by sample.
        noised: positions picked by another rule (adaptive masking) in place of the prior's.

    Returns:
        the corrupted tokens and where they were touched.

    Raises:
        ValueError: a sequence is longer than ``mask_ids`` has per-position masks for.
    """
    place = columns(real)
    if noised is None:
        noised = pick_positions(maskable, prior, rng, place)
    keep, rand = (
        0.5 * rng.per_row(stream)[:, None] if value == DRAWN else value
        for value, stream in ((replacement.keep, _KEEP), (replacement.random, _RANDOM))
    )
    kind = rng.per_position(_KIND, place)
    kept = noised & (kind < keep)
    randomised = noised & ~kept & (kind < keep + rand)
    masked = noised & ~kept & ~randomised
    tokens = torch.where(masked, mask_symbols(mask_ids, columns(maskable)), target)
    if replacement.random != 0.0:
        if ordinary is None:
            raise ValueError("random replacement needs the ids of ordinary tokens")
        drawn = random_tokens(ordinary, rng, place, _RANDOM_ID)
        tokens = torch.where(randomised, drawn, tokens)
    return Corruption(tokens, noised, masked)


def mask_symbols(mask_ids: Tensor, place: Tensor) -> Tensor:
    """The mask symbol of each position: one for all, or one per position (PaDIR's range mask).

    Raises:
        ValueError: a position has no symbol of its own.
    """
    if mask_ids.numel() == 1:
        return mask_ids.expand_as(place)
    if place.numel() and int(place.max()) >= mask_ids.numel():
        raise ValueError(
            f"--mask-range {mask_ids.numel()} has no mask for position {int(place.max())}; "
            "raise it to the longest target"
        )
    return mask_ids[place]


def random_tokens(ordinary: Tensor, rng: CounterRNG, place: Tensor, stream: int) -> Tensor:
    """Uniform ordinary tokens, int64, shape of ``place``; never a special symbol."""
    index = (rng.per_position(stream, place) * ordinary.numel()).long()
    return ordinary[index.clamp_(max=ordinary.numel() - 1)]


LOSS_WEIGHTS = ("masked", "noised", "all")


def loss_weights(scheme: str, corruption: Corruption, maskable: Tensor) -> Tensor:
    """Positions that count in the loss of the first stage, bool (B, T).

    ``masked``: those that show a mask; ``noised``: kept and random ones too; ``all``: every token.
    BOS and EOS carry no information here, since the length is given, and never count.
    """
    if scheme == "masked":
        return corruption.masked
    if scheme == "noised":
        return corruption.noised
    if scheme == "all":
        return maskable
    raise ValueError(f"loss weights must be one of {LOSS_WEIGHTS}, not {scheme!r}")
