"""A finished chain, pass by pass, and what became of every position."""

from dataclasses import dataclass, field
from typing import Any, Collection, Dict, List

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChainPass:
    """What one pass did to the T positions between BOS and EOS.

    Attributes:
        shown: int64 (T,), what the model read.
        predicted: bool (T,), where its prediction was taken.
        draft: int64 (T,), the draft after it, before anything was taken back.
        scores: float (T,), log-probability of each token of the draft when it was predicted.
        next: int64 (T,), what the next pass reads; after the last one, what is handed out.
    """

    shown: Tensor
    predicted: Tensor
    draft: Tensor
    scores: Tensor
    next: Tensor

    def taken_back(self) -> Tensor:
        """Positions whose token of the draft the next pass does not see, bool (T,)."""
        return self.next.ne(self.draft)


@dataclass(frozen=True)
class Chain:
    """One candidate of a sentence.

    Attributes:
        tokens: its output, without BOS, EOS and what was dropped.
        score: what candidates are ranked by.
        candidate: its number among the candidates of its sentence.
        passes: decoder runs that the sentence took, whichever its candidate.
        steps: each pass that predicted anything; empty for models that keep no history.
        dropped: bool (T,), positions left out of the output.
    """

    tokens: List[int]
    score: float
    candidate: int = 0
    passes: int = 1
    steps: List[ChainPass] = field(default_factory=list)
    dropped: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))

    @property
    def length(self) -> int:
        """T, positions of the canvas."""
        return len(self.dropped)


def chain_of(hypothesis: Dict[str, Any], candidates: int, strip: Collection[int]) -> Chain:
    """The chain behind a hypothesis of any model.

    Args:
        hypothesis: of a generator, with ``history`` if ``--retain-iter-history`` was on.
        candidates: chains per sentence.
        strip: ids that are no part of a sentence: BOS, EOS and padding.
    """
    tokens = [i for i in hypothesis["tokens"].tolist() if i not in strip]
    steps = hypothesis.get("steps")
    passes = len(hypothesis["tokens"]) if steps is None else int(steps) + 1
    score = float(hypothesis["score"])
    if "dropped" not in hypothesis:
        return Chain(tokens, score, passes=passes)
    made = [_pass_of(record) for record in hypothesis["history"]]
    found = [step for step in made if bool(step.predicted.any())]
    if found:  # what stood for "next" after the last pass is never read
        final = found[-1]
        found[-1] = ChainPass(final.shown, final.predicted, final.draft, final.scores, final.draft)
    return Chain(
        tokens,
        score,
        hypothesis["row"] % candidates,
        passes,
        found,
        hypothesis["dropped"][1:-1],
    )


def _pass_of(record: Dict[str, Tensor]) -> ChainPass:
    inner = {name: value[1:-1] for name, value in record.items()}
    draft = inner.pop("tokens")
    return ChainPass(draft=draft, **inner)


@dataclass(frozen=True)
class Fate:
    """What became of each position in one pass, all bool (T,).

    Attributes:
        predicted: the model was asked.
        changed: its answer differs from the draft before (any first answer does).
        kept: the next pass reads the draft's token.
        rejected: predicted in this pass, and taken back at once.
        remasked: the next pass reads a mask.
    """

    predicted: Tensor
    changed: Tensor
    kept: Tensor
    rejected: Tensor
    remasked: Tensor


def fates(chain: Chain, masks: Tensor) -> List[Fate]:
    """One :class:`Fate` for each pass.

    Args:
        chain: with its steps.
        masks: int64, ids of mask symbols.
    """
    found: List[Fate] = []
    before = chain.steps[0].shown if chain.steps else None
    answered = torch.zeros_like(before, dtype=torch.bool) if chain.steps else None
    for step in chain.steps:
        changed = step.predicted & (step.draft.ne(before) | ~answered)
        back = step.taken_back()
        remasked = torch.isin(step.next, masks)
        found.append(Fate(step.predicted, changed, ~back, step.predicted & back, remasked))
        before, answered = step.draft, answered | step.predicted
    return found
