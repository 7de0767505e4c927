"""Translations of one checkpoint on one split: made once, then kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from fairseq_gmlm.comparison.checkpoint_facts import checkpoint_facts
from fairseq_gmlm.comparison.measuring import Progress, translate_split
from fairseq_gmlm.comparison.system import SplitSystem


@dataclass(frozen=True)
class Translations:
    """What a system makes of a split; all of it JSON.

    Attributes:
        kind, family: see :class:`SplitSystem`.
        parameters: number of weights.
        languages: source and target.
        tokens: subwords of each sentence, in the order of the split.
        passes: of each sentence.
        leftovers: masks in all of them.
        left_out: number of sources that the model has no positions for; they translate to nothing.
        source_sizes: source subwords, EOS (and BOS where the model has one) included.
        facts: of the checkpoint, see :func:`checkpoint_facts`.
    """

    kind: str
    family: str
    parameters: int
    languages: List[str]
    tokens: List[List[str]]
    passes: List[float]
    leftovers: int
    left_out: int
    source_sizes: List[int]
    facts: Dict[str, Any]


def languages_of(system: SplitSystem) -> List[str]:
    """Source and target language."""
    return [str(system.task.cfg.source_lang), str(system.task.cfg.target_lang)]


def translate(system: SplitSystem, batch_size: int, progress: Progress) -> Translations:
    """Run a system over its split."""
    outputs, _ = translate_split(system, batch_size, progress)
    return Translations(
        kind=system.kind,
        family=system.family,
        parameters=system.parameters,
        languages=languages_of(system),
        tokens=[output.tokens for output in outputs],
        passes=[output.passes for output in outputs],
        leftovers=sum(output.leftovers for output in outputs),
        left_out=sum(not system.fits(i) for i in range(len(system.dataset))),
        source_sizes=[int(size) for size in system.dataset.src_sizes],
        facts=checkpoint_facts(Path(system.spec.path)),
    )
