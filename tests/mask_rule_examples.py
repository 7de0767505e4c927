"""Mask rules as a user would write them: honest, peeking, and cheating ones."""

from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.masking import columns
from fairseq_gmlm.masking_rules import View

STREAM = 40
WORD = 5


def beside_a_word(view: View, rng: Any) -> Tensor:
    """Reveals every other position; hides what follows a revealed ``WORD``."""
    shown = view.maskable & (view.place % 2 == 0)
    tokens = view.reveal(shown)
    after = torch.zeros_like(shown)
    after[:, 1:] = (tokens == WORD)[:, :-1]
    return after & view.maskable & ~shown


def whole_words(view: View, rng: Any) -> Tensor:
    """Hides every ``WORD``: it must read what it hides."""
    return view.reveal(view.maskable) == WORD


def by_source(view: View, rng: Any) -> Tensor:
    """Hides all where the source begins with ``WORD``, which it may know."""
    return view.maskable & (view.source[:, :1] == WORD)


def cheating(view: View, rng: Any) -> Tensor:
    """Looks behind the view."""
    return view.maskable & (view._target == WORD)


def beyond(view: View, rng: Any) -> Tensor:
    """Hides everything, BOS and padding too."""
    return torch.ones_like(view.maskable)


def random_one(view: View, rng: Any) -> Tensor:
    """One position of each row, without looking."""
    score = rng.per_position(STREAM, columns(view.maskable)).masked_fill(~view.maskable, 2.0)
    return view.maskable & (score == score.min(1, keepdim=True).values)
