"""Error modes pass by pass, before and after something is taken back."""

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.analysis.chains import Chain, ChainPass, Fate, fates
from fairseq_gmlm.analysis.intervals import Bootstrap, Rate
from fairseq_gmlm.analysis.repetition import Count, novel_bigrams, stutter

Tokens = List[int]


@dataclass(frozen=True)
class PassModes:
    """One pass over all sentences; those that have stopped before keep their last draft.

    Attributes:
        number: of the pass, from 1; running: sentences that took part.
        stutter_before: in the draft, before anything is taken back.
        stutter_after: in what the next pass reads, masks apart (after the last: the output).
        predicted, changed, rejected, masked: positions that were predicted, got a new token, had
            their prediction taken back, and show a mask to the next pass; shares of all positions
            of the sentences that took part.
        confidence: mean probability of the draft's tokens when they were predicted.
        absent_bigrams, mixed_bigrams: of the draft, None without a teacher.
    """

    number: int
    running: int
    stutter_before: Rate
    stutter_after: Rate
    predicted: Rate
    changed: Rate
    rejected: Rate
    masked: Rate
    confidence: Rate
    absent_bigrams: Optional[Rate] = None
    mixed_bigrams: Optional[Rate] = None


def pass_modes(
    chains: Sequence[Chain],
    lists: Sequence[List[Tokens]],
    masks: Tensor,
    bootstrap: Bootstrap,
) -> List[PassModes]:
    """One entry for each pass; none where no history was kept.

    Args:
        chains: of all sentences.
        lists: the teacher's translations of each, or empty.
        masks: int64, ids of mask symbols.
    """
    most = max((len(chain.steps) for chain in chains), default=0)
    all_fates = [fates(chain, masks) for chain in chains]
    return [_one_pass(number, chains, all_fates, lists, masks, bootstrap) for number in range(most)]


def _one_pass(
    number: int,
    chains: Sequence[Chain],
    all_fates: Sequence[List[Fate]],
    lists: Sequence[List[Tokens]],
    masks: Tensor,
    bootstrap: Bootstrap,
) -> PassModes:
    counts: Dict[str, List[Count]] = {}
    ids = set(masks.tolist())

    def note(name: str, count: Count) -> None:
        counts.setdefault(name, []).append(count)

    running = 0
    for place, (chain, each) in enumerate(zip(chains, all_fates)):
        if not chain.steps:  # an empty source
            continue
        last = number >= len(chain.steps) - 1
        step = chain.steps[-1] if last else chain.steps[number]
        draft = step.draft.tolist()
        note("stutter_before", stutter(draft, ids))
        note("stutter_after", stutter(chain.tokens if last else step.next.tolist(), ids))
        note("confidence", _confidence(step, masks))
        if lists:
            novel = novel_bigrams(draft, lists[place], ids)
            note("absent_bigrams", Count(novel.absent, novel.total))
            note("mixed_bigrams", Count(novel.mixed, novel.total))
        if number >= len(chain.steps):
            continue
        running += 1
        fate = each[number]
        for name in ("predicted", "changed", "rejected"):
            note(name, Count(int(getattr(fate, name).sum()), len(draft)))
        note("masked", Count(int(fate.remasked.sum()), len(draft)))
    rates = {
        name: bootstrap.rate([c.found for c in found], [c.total for c in found])
        for name, found in counts.items()
    }
    return PassModes(number=number + 1, running=running, **rates)


def _confidence(step: ChainPass, masks: Tensor) -> Count:
    """Sum of probabilities, and number, of tokens predicted so far."""
    known = ~torch.isin(step.draft, masks)
    total = step.scores[known].double().exp().sum().item()
    return Count(total if math.isfinite(total) else 0.0, int(known.sum()))
