"""From a template to the canvases of all lengths of its blanks, and from completions to text."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from fairseq_gmlm.data.codec import UnknownWord, encode_ids
from fairseq_gmlm.decoding.canvas import FREE, Canvas
from fairseq_gmlm.decoding.lm_generator import Completion
from fairseq_gmlm.decoding.templates import (
    Fragment,
    Part,
    TemplateError,
    blank_lengths,
    parse_template,
)
from fairseq_gmlm.scoring import Scorer, Text
from fairseq_gmlm.scoring.models import ModelLogProbs, frame_of


@dataclass(frozen=True)
class FillOptions:
    """How templates are read and how many completions are tried.

    Attributes:
        blank: shortest and longest length of a blank without one.
        max_lengths: most combinations of lengths of a template.
        samples: chains per combination.
        nbest: completions returned, best first; equal texts count once.
        rank: how completions of one template compare. ``pseudo``: mean pseudo-log-likelihood of
            all tokens of the text; ``chain``: see ``Completion.score``.
        unknown: words that are not in the dictionary stay in the text and are unknown to the model
            (else they are a fault).
    """

    blank: Tuple[int, int] = (1, 1)
    max_lengths: int = 64
    samples: int = 1
    nbest: int = 1
    rank: str = "pseudo"
    unknown: bool = False


class Filled(NamedTuple):
    """One way to complete a template: its text and its score (see ``FillOptions.rank``)."""

    text: str
    score: float


class Plan(NamedTuple):
    """A template ready to be completed.

    Attributes:
        parts: fragments and blanks in their order.
        sizes: for each canvas, number of tokens of each part.
        canvases: one for each combination of lengths and sample.
    """

    parts: List[Part]
    sizes: List[Tuple[int, ...]]
    canvases: List[Canvas]


class TemplateFiller:
    """Completes templates.

    Args:
        generator: a ``TextGenerator``.
        dictionary: of the model.
        codec: text to pieces and back.
        options: see :class:`FillOptions`.
    """

    def __init__(self, generator: Any, dictionary: Any, codec: Any, options: FillOptions) -> None:
        self.generator, self.dictionary = generator, dictionary
        self.codec, self.options = codec, options
        self.special = set(range(dictionary.nspecial)) | set(generator.vocabulary.specials())

    def plan(self, line: str, number: int) -> Plan:
        """What has to be tried for a template.

        Args:
            line: the template.
            number: of the line, from 1; random draws depend on it and on the seed alone.

        Raises:
            TemplateError: with the column: bad syntax, an unknown word, or a text too long.
        """
        options = self.options
        parts = parse_template(line, options.blank)
        given = [self._ids(p) if isinstance(p, Fragment) else None for p in parts]
        self._check_length(parts, given)
        plan = Plan(parts, [], [])
        for lengths in blank_lengths(parts, options.max_lengths):
            left = iter(lengths)
            filled = [[FREE] * next(left) if ids is None else ids for ids in given]
            tokens = [token for ids in filled for token in ids]
            ends = list(accumulate(len(ids) for ids in filled))
            blanks = [
                (end - len(f), end - 1) for f, end, g in zip(filled, ends, given) if g is None
            ]
            # Where a blank ends a word must end, and where one begins a word must begin; so must
            # one right after it.
            firsts = {first for first, _ in blanks} | {last + 1 for _, last in blanks}
            firsts = tuple(place for place in sorted(firsts) if place < len(tokens))
            lasts = tuple(last for _, last in blanks)
            # Without a blank there is one way to complete it.
            for _ in range(options.samples if lengths else 1):
                plan.sizes.append(tuple(len(ids) for ids in filled))
                key = (number << 20) + len(plan.canvases)
                plan.canvases.append(Canvas(tokens, key, firsts, lasts))
        return plan

    def _ids(self, fragment: Fragment) -> List[int]:
        """Token ids of given text."""
        try:
            ids, _ = encode_ids(
                self.codec, fragment.text, self.dictionary, self.special, self.options.unknown
            )
        except UnknownWord as error:
            raise TemplateError(fragment.columns[error.at], str(error)) from error
        return ids

    def _check_length(self, parts: Sequence[Part], given: Sequence[Any]) -> None:
        total, longest = 0, self.generator.longest
        for part, ids in zip(parts, given):
            column = part.columns[0] if isinstance(part, Fragment) else part.column
            total += part.longest if ids is None else len(ids)
            if total > longest:
                raise TemplateError(
                    column,
                    f"the text up to here may have {total} tokens, more than the model's {longest}; "
                    "shorten it",
                )

    def fill(self, plans: Sequence[Plan]) -> List[List[Filled]]:
        """Completions of many templates at once, each best first."""
        completions = self.generator.complete([c for plan in plans for c in plan.canvases])
        if self.options.rank == "pseudo":
            completions = self._ranked(plans, completions)
        results, at = [], 0
        for plan in plans:
            results.append(self._best(plan, completions[at : at + len(plan.canvases)]))
            at += len(plan.canvases)
        return results

    def _ranked(self, plans: Sequence[Plan], completions: List[Completion]) -> List[Completion]:
        """Scores replaced where several completions of a template compete."""
        compete = [len(plan.canvases) > 1 for plan in plans for _ in plan.canvases]
        chosen = [i for i, several in enumerate(compete) if several]
        texts = [Text.of(torch.tensor(completions[i].tokens)) for i in chosen]
        generator = self.generator
        scorer = Scorer(
            ModelLogProbs(generator.models), frame_of(generator.vocabulary), generator.max_tokens
        )
        scores = scorer.pseudo(texts).tolist()
        ranked = list(completions)
        for i, text, score in zip(chosen, texts, scores):
            ranked[i] = ranked[i]._replace(score=score / max(text.count, 1))
        return ranked

    def _best(self, plan: Plan, completions: Sequence[Completion]) -> List[Filled]:
        """The best completions of one template, no text twice."""
        found = [
            Filled(self._text(plan.parts, sizes, completion.tokens), completion.score)
            for sizes, completion in zip(plan.sizes, completions)
        ]
        found.sort(key=lambda item: -item.score)
        best: Dict[str, Filled] = {}
        for item in found:
            best.setdefault(item.text, item)
        return list(best.values())[: self.options.nbest]

    def _text(self, parts: Sequence[Part], sizes: Sequence[int], tokens: Sequence[int]) -> str:
        """Fragments as they were given, with the words of the blanks between them."""
        text, at = "", 0
        for part, size in zip(parts, sizes):
            if isinstance(part, Fragment):
                text += part.text
            else:
                text += self.codec.decode([self.dictionary[i] for i in tokens[at : at + size]])
            at += size
        return text
