"""From the rows of a finished chain to fairseq's hypotheses, and the counters of a run."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

import torch
from torch import Tensor

from fairseq_gmlm.decoding.chain import ChainResult
from fairseq_gmlm.decoding.remasking import stutter
from fairseq_gmlm.decoding.state import ChainState, true_first


def candidate_scores(
    result: Union[ChainResult, ChainState],
    length_penalty: float,
    brevity_alpha: Optional[float] = None,
) -> Tensor:
    """Sum of log-probabilities over the n kept positions / n ** penalty, float (R,).

    BOS and EOS are given, not predicted, and do not count; an empty hypothesis scores 0.

    Args:
        result: finished chains, or chains on their way with a whole draft.
        length_penalty: exponent of n; 1 gives the mean.
        brevity_alpha: divide by ((5 + n) / 6) ** alpha instead (spec 3.4).
    """
    kept = result.free & ~result.dropped
    total = (result.scores * kept).sum(1)
    count = kept.sum(1).to(total.dtype)
    if brevity_alpha is not None:
        return total / ((5 + count) / 6) ** brevity_alpha
    return total / count.clamp(min=1) ** length_penalty


# What a hypothesis's history keeps of each pass: fairseq prints ``tokens``, traces read the rest.
_HISTORY = {
    "tokens": "draft",
    "shown": "shown",
    "predicted": "predicted",
    "scores": "scores",
    "next": "tokens",
}


class FinishedRows:
    """The rows of a finished chain on the CPU, taken apart in a few operations for all of them.

    Attributes:
        keep: bool (R, T), positions in the hypotheses, BOS first and EOS last.
        passes: decoder runs of each row.
        rows: their numbers in the full batch.
    """

    def __init__(self, result: ChainResult, history: bool = False) -> None:
        free, dropped = result.free.cpu(), result.dropped.cpu()
        column = torch.arange(free.size(1))[None]
        real = column < free.sum(1, keepdim=True) + 2
        self.keep = real & ~dropped
        self.tokens = result.tokens.cpu()
        self.passes, self.rows = result.passes.tolist(), result.rows.tolist()
        counts = self.keep.sum(1).tolist()
        scores = (result.scores * result.free).float().cpu()
        self._tokens = self.tokens[self.keep].split(counts)
        self._scores = scores[self.keep].split(counts)
        self._drafts: Optional[List[List[Dict[str, Tensor]]]] = None
        if history:
            self._drafts = [[] for _ in counts]
            kept = result.rows.cpu()
            for record in result.history:
                rows = record.rows.cpu()
                inside = torch.isin(rows, kept)
                rows = torch.searchsorted(kept, rows[inside])
                shown = real[rows]
                sizes = shown.sum(1).tolist()
                parts = {
                    name: getattr(record, field).cpu()[inside][shown].split(sizes)
                    for name, field in _HISTORY.items()
                }
                for place, row in enumerate(rows.tolist()):
                    self._drafts[row].append({k: values[place] for k, values in parts.items()})
            self._dropped = dropped[real].split(real.sum(1).tolist())

    def hypothesis(self, row: int, score: float) -> Dict[str, Any]:
        """What fairseq expects of one hypothesis.

        With a history also ``row`` (of the batch's chains) and ``dropped`` (bool over the canvas
        from BOS to EOS), which ``analysis.chains`` reads.
        """
        found: Dict[str, Any] = {
            "tokens": self._tokens[row],
            "positional_scores": self._scores[row],
            "score": torch.tensor(score),
            "attention": None,
            "alignment": [],
            "steps": self.passes[row] - 1,
            "passes": self.passes[row],
        }
        if self._drafts is not None:
            found["history"] = self._drafts[row]
            found["row"], found["dropped"] = self.rows[row], self._dropped[row]
        return found


@dataclass
class Counters:
    """Sums over the sentences that a generator has decoded.

    Attributes:
        sentences: number of sources.
        passes: decoder runs, summed over sentences (a run counts once for all candidates).
        candidates: chains, summed over sentences.
        tokens: tokens of the chosen hypotheses, BOS and EOS apart.
        stutters: tokens among them that repeat their left neighbour.
        empty: hypotheses without any token.
    """

    sentences: int = 0
    passes: int = 0
    candidates: int = 0
    tokens: int = 0
    stutters: int = 0
    empty: int = 0

    def add(self, rows: FinishedRows, chosen: List[int], count: int, candidates: int) -> None:
        """Take in one batch.

        Args:
            rows: of its chains.
            chosen: the best row of each sentence.
            count: rows of a sentence.
            candidates: chains that were begun for it.
        """
        self.sentences += len(chosen)
        self.passes += sum(
            max(rows.passes[i : i + count]) for i in range(0, len(rows.passes), count)
        )
        self.candidates += len(chosen) * candidates
        tokens, words = rows.tokens[chosen], rows.keep[chosen].clone()
        length = words.sum(1)
        place = words.cumsum(1)
        words &= (place > 1) & (place < length[:, None])  # neither BOS nor EOS
        self.tokens += int(words.sum())
        self.empty += int((length <= 2).sum())
        # Side by side, so that positions left out do not part neighbours.
        order = true_first(words)
        self.stutters += int(stutter(tokens.gather(1, order), words.gather(1, order)).sum())

    def summary(self) -> Dict[str, float]:
        """Means per sentence and the stutter rate."""
        sentences, tokens = max(self.sentences, 1), max(self.tokens, 1)
        return {
            "sentences": self.sentences,
            "passes_per_sentence": self.passes / sentences,
            "candidates_per_sentence": self.candidates / sentences,
            "stutter_rate": self.stutters / tokens,
            "empty": self.empty,
        }
