"""Dropped and added words: those that a word alignment leaves alone."""

from typing import Any, List, NamedTuple, Sequence

from fairseq_gmlm.analysis.alignment import make_cells, train, unaligned
from fairseq_gmlm.analysis.complexity import ROUNDS, SMOOTHING
from fairseq_gmlm.analysis.repetition import Count
from fairseq_gmlm.analysis.words import ParallelWords, WordJoiner


class Adequacy(NamedTuple):
    """Of one sentence.

    Attributes:
        dropped: source words that no target word explains, among all source words.
        added: target words that no source word explains, among all target words.
    """

    dropped: Count
    added: Count


class WordAligner:
    """Lexicons of both directions, fitted on training data.

    Args:
        data: pairs to fit on.
        source_dictionary, target_dictionary: of the ids that are asked about.
    """

    def __init__(self, data: ParallelWords, source_dictionary: Any, target_dictionary: Any) -> None:
        self.data = data
        self.joiners = WordJoiner(source_dictionary), WordJoiner(target_dictionary)
        self.forward = train(make_cells(data.pairs), len(data.target) + 1, ROUNDS, SMOOTHING)
        turned = [(target, source) for source, target in data.pairs]
        self.backward = train(make_cells(turned), len(data.source) + 1, ROUNDS, SMOOTHING)

    def __call__(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> List[Adequacy]:
        """Judge translations, both sides as the dictionaries' ids."""
        left = [self.data.source.look_up(self.joiners[0](ids)) for ids in sources]
        right = [self.data.target.look_up(self.joiners[1](ids)) for ids in targets]
        added = unaligned(self.forward, list(zip(left, right)))
        dropped = unaligned(self.backward, list(zip(right, left)))
        return [
            Adequacy(Count(lost, len(source)), Count(new, len(target)))
            for lost, new, source, target in zip(dropped, added, left, right)
        ]
