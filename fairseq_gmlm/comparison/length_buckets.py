"""Quality and speed by the length of the source."""

import statistics
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU


def buckets(sizes: Sequence[int], count: int) -> List[List[int]]:
    """Sentence numbers in up to ``count`` groups of about equal size, short sources first.

    Sentences of one length stay together.

    >>> buckets([3, 1, 1, 9], 2)
    [[1, 2], [0, 3]]
    """
    order = sorted(range(len(sizes)), key=lambda i: (sizes[i], i))
    groups: List[List[int]] = []
    start = 0
    for number in range(1, count + 1):
        end = round(number * len(order) / count)
        while 0 < end < len(order) and sizes[order[end]] == sizes[order[end - 1]]:
            end += 1
        if end > start:
            groups.append(sorted(order[start:end]))
            start = end
    return groups


def by_source_length(
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int],
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[str],
    times: Optional[Sequence[Tuple[int, float]]],
) -> List[Dict[str, Any]]:
    """One entry a group.

    Args:
        groups: sentence numbers.
        sizes: source subwords, EOS included.
        hypotheses: lines of each seed.
        references: lines.
        times: sentence numbers with seconds at batch 1.

    Returns:
        ``shortest``, ``longest`` source; ``sentences``; ``bleu``, mean over seeds; ``latency_ms``,
        median over the ``timed`` sentences of the group, None if none was timed.
    """
    bleu = BLEU()
    spent = dict(times or [])
    found = []
    for group in groups:
        scores = [
            bleu.corpus_score([lines[i] for i in group], [[references[i] for i in group]]).score
            for lines in hypotheses
        ]
        timed = [1000 * spent[i] for i in group if i in spent]
        found.append(
            {
                "shortest": min(int(sizes[i]) for i in group),
                "longest": max(int(sizes[i]) for i in group),
                "sentences": len(group),
                "bleu": statistics.fmean(scores),
                "latency_ms": statistics.median(timed) if timed else None,
                "timed": len(timed),
            }
        )
    return found
