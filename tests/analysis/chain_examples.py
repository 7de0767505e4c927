"""Hand-made chains, and traces of them."""

from typing import List, Optional, Sequence

import torch

from fairseq_gmlm.analysis.chains import Chain, ChainPass
from fairseq_gmlm.analysis.tracing import (
    Cell,
    LengthCandidate,
    SentenceTrace,
    TracedChain,
    TracedPass,
)

MASK = 9


def step(
    shown: Sequence[int],
    draft: Sequence[int],
    then: Sequence[int],
    predicted: Optional[Sequence[int]] = None,
    probability: float = 0.5,
) -> ChainPass:
    """A pass; what was shown as a mask was predicted, unless said otherwise."""
    where = [token == MASK for token in shown] if predicted is None else predicted
    return ChainPass(
        torch.tensor(shown),
        torch.tensor(where, dtype=torch.bool),
        torch.tensor(draft),
        torch.full((len(draft),), probability).log(),
        torch.tensor(then),
    )


def mask_predict_chain() -> Chain:
    """``5 5 6`` whose last two are masked again, then ``5 7 6``."""
    steps = [
        step([MASK] * 3, [5, 5, 6], [5, MASK, MASK], probability=0.25),
        step([5, MASK, MASK], [5, 7, 6], [5, 7, 6]),
    ]
    return Chain([5, 7, 6], -0.5, 0, 2, steps, torch.zeros(3, dtype=torch.bool))


def refine_chain() -> Chain:
    """A refined draft whose repeat is put back at once, and is left out in the end."""
    everywhere = [1, 1, 1]
    steps = [
        step([4, 4, 4], [5, 5, 6], [5, 4, 6], everywhere),
        step([5, 4, 6], [5, 5, 6], [5, 5, 6], everywhere),
    ]
    return Chain([5, 6], -0.5, 0, 2, steps, torch.tensor([False, True, False]))


def trace(
    words: Sequence[str] = ("Ein", "Hund"), number: int = 3, chains: int = 1
) -> SentenceTrace:
    """Two passes over as many positions as words; the last one is remasked after the first."""
    last = len(words) - 1

    def cells(first: bool) -> List[Cell]:
        return [
            Cell(word, 0.9 if i < last else 0.25, first or i == last, first, not (first and i == last),
                 first and i == last, first and i == last)
            for i, word in enumerate(words)
        ]  # fmt: skip

    even = [[1 / len(words)] * len(words)] * len(words)
    cross = [[0.01, 0.69, 0.3] for _ in words]
    passes = [TracedPass(n + 1, cells(n == 0), even, cross) for n in range(2)]
    made = [
        TracedChain(
            n, n + 1, -0.1 - n, ["[mask]"] * len(words), passes, list(words), " ".join(words)
        )
        for n in range(chains)
    ]
    lengths = [
        LengthCandidate(0, len(words), -0.3, -0.1, True),
        LengthCandidate(1, len(words) + 1, -1.4, -0.2, False),
    ]
    return SentenceTrace(number, ["A", "dog", "</s>"], "Ein Hund", lengths, made)
