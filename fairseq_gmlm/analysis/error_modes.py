"""Error modes of a system on a split: in its outputs, the references, the teacher, each pass."""

import logging
import statistics
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

import torch
from torch import Tensor
from tqdm import tqdm

from fairseq_gmlm.analysis.adequacy import WordAligner
from fairseq_gmlm.analysis.decoder import Decoded, Decoder
from fairseq_gmlm.analysis.dependence import GROUPS, Dependence, batch_sums, summarise
from fairseq_gmlm.analysis.intervals import Bootstrap, Rate
from fairseq_gmlm.analysis.pass_modes import PassModes, pass_modes
from fairseq_gmlm.analysis.repetition import Count, novel_bigrams, repeated_ngrams, stutter
from fairseq_gmlm.analysis.teacher_view import TeacherView
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)
Tokens = List[int]


@dataclass(frozen=True)
class Settings:
    """What is looked at.

    Attributes:
        split: part of the data; sentences: how many of it, spread evenly (0: all).
        ngrams: longest repeated n-gram counted.
        layers, heads: of attention (see ``dependence``).
        max_tokens: in a batch.
        bootstrap, seed: resamples of the intervals.
    """

    split: str = "test"
    sentences: int = 0
    ngrams: int = 4
    layers: int = 0
    heads: str = "mean"
    max_tokens: int = 4096
    bootstrap: int = 1000
    seed: int = 1


@dataclass(frozen=True)
class ErrorModes:
    """A whole analysis.

    Attributes:
        sentences: number looked at.
        passes: decoder runs per sentence (tokens, for an autoregressive model), mean.
        mask_leftovers: mask symbols in the outputs; must be 0.
        texts: for ``output``, ``references`` and ``teacher`` (its best translation), measures by
            name.
        per_pass: of GMLM chains, sentences that have stopped keeping their last draft.
        dependence: for ``all`` and each pass.
    """

    sentences: int
    passes: float
    mask_leftovers: int
    texts: Dict[str, Dict[str, Rate]]
    per_pass: List[PassModes] = field(default_factory=list)
    dependence: Dict[str, Dependence] = field(default_factory=dict)


def analyse(
    decoder: Decoder,
    settings: Settings,
    teacher: Optional[TeacherView] = None,
    aligner: Optional[WordAligner] = None,
) -> ErrorModes:
    """Decode a split and count what goes wrong.

    Args:
        decoder: the system.
        teacher: for mixed modes and agreement.
        aligner: for dropped and added words.

    Raises:
        UserError: an empty split, or one without references.
    """
    dataset, numbers = decoder.split(settings.split, settings.sentences)
    found: List[Decoded] = []
    lists: List[List[Tokens]] = []
    sums: List[List[Tensor]] = []  # for each batch, for each pass
    with tqdm(total=len(numbers), desc="decode", unit="sentence", disable=None) as bar:
        for batch in decoder.batches(dataset, numbers, settings.max_tokens):
            sentences = decoder.decode(batch)
            found += sentences
            if decoder.is_gmlm:
                model, layers, heads = decoder.models[0], settings.layers, settings.heads
                sums.append(batch_sums(model, batch, sentences, layers, heads))
            if teacher is not None:
                lists += teacher.translations([s.source for s in sentences])
            bar.update(len(sentences))
    if not found:
        raise UserError(f"--gen-subset {settings.split}: no sentence to look at")
    if any(sentence.target is None for sentence in found):
        raise UserError(f"--gen-subset {settings.split}: has no references")
    bootstrap = Bootstrap(settings.bootstrap, settings.seed)
    masks = set(decoder.masks.tolist())
    texts = {
        "output": [s.chains[0].tokens for s in found],
        "references": [s.target for s in found],
    }
    if teacher is not None:
        texts["teacher"] = [each[0] if each else [] for each in lists]
    judge = Judge(found, lists, settings.ngrams, bootstrap, teacher, aligner)
    measures = {name: judge(tokens) for name, tokens in texts.items()}
    dependence = _dependence(sums, bootstrap)
    return ErrorModes(
        sentences=len(found),
        passes=statistics.fmean(s.chains[0].passes for s in found),
        mask_leftovers=sum(t in masks for tokens in texts["output"] for t in tokens),
        texts=measures,
        per_pass=pass_modes([s.chains[0] for s in found], lists, decoder.masks, bootstrap),
        dependence=dependence,
    )


def _dependence(sums: List[List[Tensor]], bootstrap: Bootstrap) -> Dict[str, Dependence]:
    """Of all passes together, and of each."""
    if not sums:
        return {}
    most = max(len(batch) for batch in sums)
    sizes = [batch[0].size(0) for batch in sums if batch]
    empty = torch.zeros(len(GROUPS), 2, dtype=torch.float64)
    passes = []
    for number in range(most):
        parts = [
            batch[number] if number < len(batch) else empty.expand(size, -1, -1)
            for batch, size in zip((b for b in sums if b), sizes)
        ]
        passes.append(torch.cat(parts))
    if not passes:
        return {}
    found = {"all": summarise(torch.stack(passes).sum(0), bootstrap)}
    found.update({str(n): summarise(each, bootstrap) for n, each in enumerate(passes, 1)})
    return found


@dataclass(frozen=True)
class Judge:
    """Measures translations of the same sources, whoever made them."""

    sentences: Sequence[Decoded]
    lists: Sequence[List[Tokens]]
    ngrams: int
    bootstrap: Bootstrap
    teacher: Optional[TeacherView]
    aligner: Optional[WordAligner]

    def __call__(self, texts: Sequence[Tokens]) -> Dict[str, Rate]:
        """Rates by name."""
        found = {"stutter": self._rate([stutter(t) for t in texts])}
        for n in range(1, self.ngrams + 1):
            found[f"repeated_{n}grams"] = self._rate([repeated_ngrams(t, n) for t in texts])
        sources = [s.source for s in self.sentences]
        if self.aligner is not None:
            judged = self.aligner(sources, texts)
            found["dropped_words"] = self._rate([each.dropped for each in judged])
            found["added_words"] = self._rate([each.added for each in judged])
        references = [s.target for s in self.sentences]
        found["length_ratio"] = self._rate(
            [Count(len(t), len(r)) for t, r in zip(texts, references)]
        )
        off = [Count(abs(len(t) - len(r)), 1) for t, r in zip(texts, references)]
        found["length_error"] = self._rate(off)
        found["empty"] = self._rate([Count(not t, 1) for t in texts])
        if self.teacher is not None:
            found.update(self._beside_the_teacher(sources, texts))
        return found

    def _rate(self, counts: Sequence[Count]) -> Rate:
        return self.bootstrap.rate([c.found for c in counts], [c.total for c in counts])

    def _beside_the_teacher(
        self, sources: Sequence[Tokens], texts: Sequence[Tokens]
    ) -> Dict[str, Rate]:
        novel = [novel_bigrams(text, known) for text, known in zip(texts, self.lists)]
        opinions = []
        for start in range(0, len(texts), 64):
            part = slice(start, start + 64)
            opinions += self.teacher.opinions(sources[part], texts[part])
        same = [Count(known[:1] == [text], 1) for text, known in zip(texts, self.lists)]
        return {
            "absent_bigrams": self._rate([Count(n.absent, n.total) for n in novel]),
            "mixed_bigrams": self._rate([Count(n.mixed, n.total) for n in novel]),
            "teacher_agreement": self._rate([Count(o.agreed, o.total) for o in opinions]),
            "teacher_surprise": self._rate([Count(-o.log_probability, o.total) for o in opinions]),
            "same_as_teacher": self._rate(same),
        }
