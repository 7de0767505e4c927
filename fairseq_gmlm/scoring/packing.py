"""Asking a model many questions about texts in few passes."""

from typing import Callable, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

# (tokens int64 (R, T), asked bool (R, T), target int64 (R, T), text int64 (R,)) -> float (R, T):
# log-probabilities of ``target`` where ``asked``; row r shows text number ``text[r]``.
LogProbs = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Frame(NamedTuple):
    """Ids of the symbols around and inside a text: BOS, EOS, padding, mask."""

    bos: int
    eos: int
    pad: int
    mask: int


class Text(NamedTuple):
    """A text to be scored.

    Attributes:
        tokens: int64 (N,), without BOS and EOS.
        free: bool (N,), positions that are scored; the others are always visible (the ends of
            sentences inside a block).
    """

    tokens: Tensor
    free: Tensor

    @classmethod
    def of(cls, tokens: Tensor) -> "Text":
        """All of whose tokens are scored."""
        return cls(tokens, torch.ones_like(tokens, dtype=torch.bool))

    @property
    def count(self) -> int:
        """Number n of scored tokens."""
        return int(self.free.sum())


class Queries(NamedTuple):
    """Q questions about one text with n scored tokens.

    Attributes:
        hidden: bool (Q, n), tokens that the model does not see.
        asked: bool (Q, n), tokens whose log-probability is wanted; a subset of ``hidden``.
    """

    hidden: Tensor
    asked: Tensor


def evaluate(
    log_probs: LogProbs,
    texts: Sequence[Text],
    queries: Sequence[Queries],
    frame: Frame,
    max_tokens: int,
) -> List[Tensor]:
    """Answers, double (Q, n) for each text, 0 where nothing was asked.

    Questions about all texts are put into as few passes as ``max_tokens`` (padding included) per
    pass allows; a single long text may exceed it.

    Args:
        log_probs: the model.
        texts: the texts.
        queries: for each of them.
        frame: ids of the frame.
        max_tokens: budget of a pass.
    """
    answers = [torch.zeros(q.hidden.shape, dtype=torch.double) for q in queries]
    rows = [
        (len(t.tokens), i, r) for i, t in enumerate(texts) for r in range(len(queries[i].asked))
    ]
    rows.sort()
    batch: List[Tuple[int, int]] = []
    for length, text, row in rows:
        if batch and (len(batch) + 1) * (length + 2) > max_tokens:
            _pass(log_probs, texts, queries, frame, batch, answers)
            batch = []
        batch.append((text, row))
    if batch:
        _pass(log_probs, texts, queries, frame, batch, answers)
    return answers


def _pass(log_probs, texts, queries, frame, batch, answers) -> None:
    width = max(len(texts[text].tokens) for text, _ in batch) + 2
    tokens = torch.full((len(batch), width), frame.pad)
    target = tokens.clone()
    asked = torch.zeros(len(batch), width, dtype=torch.bool)
    for at, (number, row) in enumerate(batch):
        text = texts[number]
        end = len(text.tokens) + 1
        target[at, 0], target[at, end] = frame.bos, frame.eos
        target[at, 1:end] = text.tokens
        tokens[at] = target[at]
        place = 1 + text.free.nonzero().squeeze(1)
        tokens[at, place[queries[number].hidden[row]]] = frame.mask
        asked[at, place[queries[number].asked[row]]] = True
    found = log_probs(tokens, asked, target, torch.tensor([text for text, _ in batch]))
    found = found.double().cpu()
    for at, (number, row) in enumerate(batch):
        place = 1 + texts[number].free.nonzero().squeeze(1)
        answers[number][row] = found[at, place] * queries[number].asked[row]
