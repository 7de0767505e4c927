"""Adaptive masking: rules that choose *which* positions are hidden (spec 1.5).

Predicting x_K from x_-K is the right objective only if p(K | x) does not depend on x_K. So a rule
never gets the target: it asks a :class:`View` to reveal positions, and a position that it has
revealed cannot be hidden any more. Given the same random numbers K is then a function of what stays
visible. Whole-word masking, say, is refused: it must read the pieces that it hides.
"""

from importlib import import_module
from typing import Callable, Dict, Optional

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.masking import MaskPrior, columns, pick_positions

# Streams of the counter generator for rules begin here; masking.py uses those below.
FIRST_STREAM = 32
_CUTS, _GAPS, _CHECK = FIRST_STREAM, FIRST_STREAM + 1, FIRST_STREAM + 2


class View:
    """What a rule may know of a batch.

    Attributes:
        maskable: bool (B, T), positions that may be hidden.
        place: int64 (B, T), number of each position among the maskable ones of its row.
        count: int64 (B,), how many positions the prior wants hidden.
        source: int64 (B, S) or None; always visible, so that a rule may read all of it.
        revealed: bool (B, T), target positions that the rule has read.
    """

    def __init__(
        self, target: Tensor, maskable: Tensor, count: Tensor, source: Optional[Tensor] = None
    ) -> None:
        self._target = target
        self.maskable, self.count, self.source = maskable, count, source
        self.place = columns(maskable)
        self.revealed = torch.zeros_like(maskable)
        self._asked = False

    def reveal(self, where: Tensor) -> Tensor:
        """Tokens (B, T) at ``where``, bool (B, T); -1 elsewhere. They must stay visible."""
        self.revealed = self.revealed | where
        self._asked = True
        return self._target.masked_fill(~where, -1)

    @property
    def read_nothing(self) -> bool:
        """The rule has not looked at any target token."""
        return not self._asked


# (view, rng) -> hidden positions, bool (B, T)
MaskRule = Callable[[View, CounterRNG], Tensor]


def spans(mean: float) -> MaskRule:
    """Contiguous spans, ``mean`` tokens long on average, apart from each other.

    Neighbours depend on each other most, so hiding them together leaves fewer clues (spec 1.5). The
    number of hidden tokens is exactly the prior's. Reads lengths alone.

    Raises:
        ValueError: ``mean`` is below 1.
    """
    if mean < 1:
        raise ValueError(f"--mask-span-mean must be at least 1, not {mean}")

    def rule(view: View, rng: CounterRNG) -> Tensor:
        return view.maskable & span_positions(view.maskable, view.count, mean, rng)

    return rule


def span_positions(maskable: Tensor, count: Tensor, mean: float, rng: CounterRNG) -> Tensor:
    """``count`` (B,) maskable positions in about count / mean spans, bool (B, T).

    Every composition of the count into that many lengths, and every choice of gaps between visible
    tokens to put them in, is equally likely (T5's span corruption, in tensors).
    """
    total = maskable.sum(1)
    count = count.minimum(total)
    visible = total - count
    wanted = (count.double() / mean + 1e-9).round().long().clamp(min=1)
    number = wanted.minimum(count).minimum(visible + 1)
    ordinal = torch.arange(maskable.size(1) + 1, device=maskable.device).expand(
        maskable.size(0), -1
    )
    # Lengths: ends of spans among the hidden tokens; the last token always ends one.
    inner = ordinal < (count - 1)[:, None]
    cut = _draw(rng, _CUTS, ordinal, inner, number - 1)
    ends = cut | (ordinal == (count - 1)[:, None])
    end_order = ends.to(torch.uint8).argsort(dim=1, descending=True, stable=True) + 1
    hidden_before = torch.cat([torch.zeros_like(count)[:, None], end_order], 1)
    # Places: one span at most in each of the visible + 1 gaps, so that spans never touch.
    gaps = _draw(rng, _GAPS, ordinal, ordinal <= visible[:, None], number)
    spans_before = gaps.long().cumsum(1)
    position = ordinal + hidden_before.gather(1, spans_before)
    shown = torch.zeros_like(hidden_before, dtype=torch.bool)
    real = ordinal < visible[:, None]
    # Columns past the row's visible tokens write to the last, spare column.
    shown.scatter_(1, torch.where(real, position, shown.size(1) - 1), True)
    return maskable & ~shown.gather(1, columns(maskable))


def _draw(rng: CounterRNG, stream: int, ordinal: Tensor, among: Tensor, number: Tensor) -> Tensor:
    """``number`` (B,) uniformly chosen True places of ``among``, bool like it."""
    score = rng.per_position(stream, ordinal).masked_fill(~among, 2.0)
    rank = score.argsort(dim=1, stable=True).argsort(dim=1)
    return among & (rank < number[:, None])


def apply_rule(
    rule: MaskRule,
    target: Tensor,
    maskable: Tensor,
    real: Tensor,
    prior: MaskPrior,
    rng: CounterRNG,
    source: Optional[Tensor] = None,
) -> Tensor:
    """Positions that ``rule`` hides, bool (B, T).

    Args:
        rule: see :data:`MaskRule`.
        target, maskable, real: as for :func:`fairseq_gmlm.masking.corrupt`.
        prior: how many, which the rule is told.
        rng: keyed by sample.
        source: the source tokens, which a rule may read.

    Raises:
        ValueError: the rule hides what it has read, or what may not be hidden.
    """
    count = pick_positions(maskable, prior, rng, columns(real)).sum(1)
    view = View(target, maskable, count, source)
    hidden = rule(view, rng)
    if bool((hidden & ~maskable).any()):
        raise ValueError(
            "the mask rule hides BOS, EOS or padding; let it choose among view.maskable"
        )
    if not view.read_nothing and bool((hidden & view.revealed).any()):
        raise ValueError(
            "the mask rule hides tokens that it has read, so that the mask tells what is under it "
            "(p(K|x) must not depend on x_K); reveal other positions than those it hides"
        )
    return hidden


def check_blind(
    rule: MaskRule,
    target: Tensor,
    maskable: Tensor,
    real: Tensor,
    prior: MaskPrior,
    rng: CounterRNG,
    ordinary: Tensor,
    source: Optional[Tensor] = None,
) -> None:
    """Change every hidden token and draw the mask again: it must be the same.

    Catches rules that see the target by other ways than their view.

    Args:
        ordinary: int64 (V',), ids to change tokens to; the others as for :func:`apply_rule`.

    Raises:
        ValueError: the mask has changed.
    """
    hidden = apply_rule(rule, target, maskable, real, prior, rng, source)
    index = (rng.per_position(_CHECK, columns(real)) * ordinary.numel()).long()
    other = torch.where(hidden, ordinary[index], target)
    again = apply_rule(rule, other, maskable, real, prior, rng, source)
    if not torch.equal(hidden, again):
        raise ValueError("the mask rule's choice depends on the tokens that it hides (spec 1.5)")


# Rules by name, made from the mean span length.
MASK_RULES: Dict[str, Callable[[float], MaskRule]] = {"spans": spans}


def build_mask_rule(name: str, span_mean: float) -> Optional[MaskRule]:
    """The rule called ``name``: ``none``, one of :data:`MASK_RULES`, or ``package.module:function``.

    Raises:
        ValueError: there is no such rule.
    """
    if name == "none":
        return None
    if name in MASK_RULES:
        return MASK_RULES[name](span_mean)
    module, _, function = name.partition(":")
    if not function:
        known = ", ".join(["none", *MASK_RULES])
        raise ValueError(
            f"--mask-rule must be one of {known} or package.module:function, not {name}"
        )
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--mask-rule {name} cannot be imported: {error}") from error
