"""From the rows of a finished chain to fairseq's hypotheses, and the counters of a run."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from fairseq_gmlm.decoding.chain import ChainResult, PassRecord
from fairseq_gmlm.decoding.remasking import stutter


def candidate_scores(
    result: ChainResult, length_penalty: float, brevity_alpha: Optional[float] = None
) -> Tensor:
    """Sum of log-probabilities over the n kept positions / n ** penalty, float (R,).

    BOS and EOS are given, not predicted, and do not count; an empty hypothesis scores 0.

    Args:
        result: finished chains.
        length_penalty: exponent of n; 1 gives the mean.
        brevity_alpha: divide by ((5 + n) / 6) ** alpha instead (spec 3.4).
    """
    kept = result.free & ~result.dropped
    total = (result.scores * kept).sum(1)
    count = kept.sum(1).to(total.dtype)
    if brevity_alpha is not None:
        return total / ((5 + count) / 6) ** brevity_alpha
    return total / count.clamp(min=1) ** length_penalty


def kept(result: ChainResult, row: int) -> Tensor:
    """Canvas positions of one hypothesis, BOS first and EOS last, bool (T,)."""
    return ~result.dropped[row] & _real(result, row)


def hypothesis(result: ChainResult, row: int, score: float, history: bool) -> Dict[str, Any]:
    """What fairseq expects of one hypothesis, on the CPU.

    With ``history`` also ``row`` (of the batch's chains), ``dropped`` (bool over the canvas from BOS
    to EOS) and ``history``, a dictionary for each pass (see :func:`one_pass`).
    """
    keep = kept(result, row)
    passes = int(result.passes[row])
    found: Dict[str, Any] = {
        "tokens": result.tokens[row][keep].cpu(),
        "positional_scores": (result.scores[row] * result.free[row])[keep].float().cpu(),
        "score": torch.tensor(score),
        "attention": None,
        "alignment": [],
        "steps": passes - 1,
        "passes": passes,
    }
    if history:
        real = _real(result, row)
        found["row"], found["dropped"] = row, result.dropped[row][real].cpu()
        found["history"] = [
            one_pass(record, int(place[0]), real)
            for record in result.history
            if len(place := (record.rows == row).nonzero())
        ]
    return found


def one_pass(record: PassRecord, place: int, real: Tensor) -> Dict[str, Tensor]:
    """What one pass did to one row: its draft as ``tokens``, as fairseq prints it, and the rest."""
    found = {"tokens": record.draft, "next": record.tokens}
    found.update({name: getattr(record, name) for name in ("shown", "predicted", "scores")})
    return {name: value[place][real].cpu() for name, value in found.items()}


def _real(result: ChainResult, row: int) -> Tensor:
    """Positions up to EOS: the free ones, BOS before and EOS after them."""
    column = torch.arange(result.free.size(1), device=result.free.device)
    return column < result.free[row].sum() + 2


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

    def add(self, result: ChainResult, chosen: List[Dict[str, Any]], count: int) -> None:
        """Take in one batch."""
        self.sentences += len(chosen)
        self.passes += int(result.passes.view(-1, count).max(1).values.sum())
        self.candidates += len(chosen) * count
        for item in chosen:
            words = item["tokens"][1:-1]
            self.tokens += len(words)
            self.empty += len(words) == 0
            if len(words):
                everywhere = torch.ones(1, len(words), dtype=torch.bool)
                self.stutters += int(stutter(words[None], everywhere).sum())

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
