"""Canvases of a language model: given tokens with runs of masks between them."""

from typing import Any, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.state import ChainState, initial_state
from fairseq_gmlm.masking import mask_symbols, random_tokens

_START_STREAM = 1
FREE = -1  # stands for a position to be filled


class Canvas(NamedTuple):
    """One text to be completed.

    Attributes:
        tokens: ids between BOS and EOS, :data:`FREE` where a token is to be found.
        key: what its random draws depend on, besides the seed.
        firsts, lasts: places in ``tokens`` where a word must begin, and where one must end.
    """

    tokens: List[int]
    key: int
    firsts: Tuple[int, ...] = ()
    lasts: Tuple[int, ...] = ()

    @property
    def free(self) -> int:
        """Number of positions to be filled."""
        return sum(token == FREE for token in self.tokens)


def start_canvases(
    canvases: Sequence[Canvas],
    vocabulary: Any,
    start: str,
    seed: int,
    device: Any = "cpu",
    draft: bool = False,
) -> ChainState:
    """Rows BOS text EOS of a chain about to begin, padded on the right.

    Args:
        canvases: R texts.
        vocabulary: ids of the frame, of masks and of ordinary tokens.
        start: what stands at free positions: ``mask``, ``random`` or ``mask-range``.
        seed: of this run.
        device: where the tensors go.
        draft: what stands there counts as predicted already.

    Raises:
        ValueError: a mask-range start without per-position masks.
    """
    width = max(len(canvas.tokens) for canvas in canvases) + 2
    rows = torch.full((len(canvases), width), vocabulary.pad, dtype=torch.long)
    for row, canvas in zip(rows, canvases):
        row[0], row[len(canvas.tokens) + 1] = vocabulary.bos, vocabulary.eos
        row[1 : len(canvas.tokens) + 1] = torch.tensor(canvas.tokens, dtype=torch.long)
    rows = rows.to(device)
    free = rows == FREE
    place = (free.long().cumsum(1) - 1).clamp(min=0)
    rng = CounterRNG(seed, torch.tensor([canvas.key for canvas in canvases], device=device))
    tokens = torch.where(free, _fill(vocabulary, start, rng, place), rows)
    return initial_state(tokens, free, place, rng, free if draft else None)


def _fill(vocabulary: Any, start: str, rng: CounterRNG, place: Tensor) -> Tensor:
    if start == "random":
        return random_tokens(vocabulary.ordinary.to(place.device), rng, place, _START_STREAM)
    if start == "mask-range":
        ids = vocabulary.mask_ids.to(place.device)
        if ids.numel() == 1:
            raise ValueError("--decode-start mask-range needs a model trained with --mask-range N")
        return mask_symbols(ids, place)
    return torch.full_like(place, vocabulary.mask)


class NoSource:
    """What stands for an encoded source where there is none."""

    def select(self, sentences: Tensor) -> "NoSource":
        """Nothing to select from."""
        return self


class WholeWords:
    """Keeps subwords that would begin or go on outside a blank out of its edges.

    A logit hook for ``ModelConditional``.

    Args:
        canvases: the R rows of the chain.
        table: which symbols begin a word and after which one goes on (``words.WordTable``).
        width: T, columns of the rows.
        device: where the logits are.
    """

    def __init__(self, canvases: Sequence[Canvas], table: Any, width: int, device: Any) -> None:
        self.continues = (~table.begins).to(device)
        self.goes_on = table.goes_on.to(device)
        self.first, self.last = (
            torch.zeros(len(canvases), width, dtype=torch.bool) for _ in range(2)
        )
        for row, canvas in enumerate(canvases):
            self.first[row, [1 + place for place in canvas.firsts]] = True
            self.last[row, [1 + place for place in canvas.lasts]] = True
        self.first, self.last = self.first.to(device), self.last.to(device)

    def __call__(self, logits: Tensor, state: ChainState, columns: Tensor, step: int) -> Tensor:
        """Logits (R, n, V) of ``columns`` (R, n), with what does not fit at -inf."""
        for places, symbols in ((self.first, self.continues), (self.last, self.goes_on)):
            here = places[state.rows].gather(1, columns)
            if bool(symbols.any()):
                logits = logits.masked_fill(here[..., None] & symbols, -torch.inf)
        return logits
