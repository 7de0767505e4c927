"""How hard training data is: p(target | source) by word alignment, fertility, lengths, vocabulary.

Distillation is said to help because it makes data simpler. The measure of Zhou, Neubig and Gu
(2020) is the conditional entropy of target words given their aligned source word.
"""

from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.analysis.alignment import (
    NULL,
    Cells,
    Lexicon,
    best_places,
    make_cells,
    posteriors,
    train,
)
from fairseq_gmlm.analysis.words import ParallelWords

ROUNDS, SMOOTHING = 5, 0.01


@dataclass(frozen=True)
class Complexity:
    """Statistics of one data set; entropies in bits.

    Attributes:
        sentences, source_words, target_words, target_subwords: sizes of what was looked at.
        source_types, target_types: distinct words.
        source_length, target_length: mean words per sentence.
        length_ratio, length_ratio_deviation: of target to source words, over sentences.
        entropy_by_type: mean over source words (types) of the entropy of their translations.
        entropy_by_token: the same mean weighted by how often each is aligned.
        fertility, fertility_deviation: expected number of target words that a source word (token)
            explains, mean and standard deviation.
        fertility_entropy: of the number of target words linked to a source word, given which word
            it is (weighted by tokens).
        silent: share of source words to which no target word is linked.
        unexplained: share of target words that are linked to none.
        displacement: mean distance of linked words from the diagonal, as a share of the sentence.
    """

    sentences: int
    source_words: int
    target_words: int
    target_subwords: int
    source_types: int
    target_types: int
    source_length: float
    target_length: float
    length_ratio: float
    length_ratio_deviation: float
    entropy_by_type: float
    entropy_by_token: float
    fertility: float
    fertility_deviation: float
    fertility_entropy: float
    silent: float
    unexplained: float
    displacement: float


def entropies(lexicon: Lexicon) -> Tuple[float, float]:
    """Mean entropy of p(target | source word) over types, and over aligned tokens, in bits.

    From expected counts of links; NULL is left out.
    """
    source = torch.div(lexicon.keys, lexicon.width, rounding_mode="floor")
    real = source != NULL
    source, counts = source[real], lexicon.counts[real]
    if not len(source):
        return 0.0, 0.0
    total = torch.zeros(int(source.max()) + 1, dtype=torch.float64).index_add_(0, source, counts)
    share = counts / total[source].clamp(min=1e-300)
    terms = torch.special.entr(share) / torch.log(torch.tensor(2.0, dtype=torch.float64))
    each = torch.zeros_like(total).index_add_(0, source, terms)
    seen = total > 0
    by_token = float((each * total).sum() / total.sum())
    return float(each[seen].mean()), by_token


def _source_tokens(cells: Cells, pairs: List[tuple]) -> Tuple[Tensor, Tensor]:
    """Number of each cell's source token in the corpus (NULL: the last one), and tokens' words."""
    sizes = torch.tensor([len(source) for source, _ in pairs], dtype=torch.long)
    targets = torch.tensor([len(target) for _, target in pairs], dtype=torch.long)
    start = (sizes.cumsum(0) - sizes).repeat_interleave(targets)[cells.slot]
    words = torch.tensor([word for source, _ in pairs for word in source], dtype=torch.long)
    return torch.where(cells.place == NULL, len(words), start + cells.place - 1), words


def conditional_entropy(words: Tensor, values: Tensor) -> float:
    """H(value | word) in bits over tokens; words and values int64 (N,), values from 0."""
    if not len(words):
        return 0.0
    size = int(values.max()) + 1
    keys, counts = (words * size + values).unique(return_counts=True)
    group = torch.div(keys, size, rounding_mode="floor")
    total = torch.zeros(int(group.max()) + 1, dtype=torch.long).index_add_(0, group, counts)
    share = counts.double() / total[group]
    return abs(float((counts * torch.log2(share)).sum() / counts.sum()))


def measure(data: ParallelWords) -> Complexity:
    """Align a data set and measure it."""
    cells = make_cells(data.pairs)
    width = len(data.target) + 1
    lexicon = train(cells, width, ROUNDS, SMOOTHING)
    likelihood = lexicon.of(cells)
    token, words = _source_tokens(cells, data.pairs)
    expected = torch.zeros(len(words) + 1, dtype=torch.float64)
    expected.index_add_(0, token, posteriors(cells, likelihood))
    fertility = expected[:-1]
    linked = cells.place == best_places(cells, likelihood)[cells.slot]
    links = torch.bincount(token[linked], minlength=len(words) + 1)
    by_type, by_token = entropies(lexicon)
    lengths = torch.tensor([[len(s), len(t)] for s, t in data.pairs], dtype=torch.float64)
    ratio = lengths[:, 1] / lengths[:, 0].clamp(min=1)
    return Complexity(
        sentences=len(data.pairs),
        source_words=len(words),
        target_words=cells.slots,
        target_subwords=data.subwords,
        source_types=len(data.source),
        target_types=len(data.target),
        source_length=float(lengths[:, 0].mean()),
        target_length=float(lengths[:, 1].mean()),
        length_ratio=float(ratio.mean()),
        length_ratio_deviation=float(ratio.std(unbiased=False)),
        entropy_by_type=by_type,
        entropy_by_token=by_token,
        fertility=float(fertility.mean()),
        fertility_deviation=float(fertility.std(unbiased=False)),
        fertility_entropy=conditional_entropy(words, links[:-1]),
        silent=float((links[:-1] == 0).double().mean()),
        unexplained=float(links[-1]) / max(cells.slots, 1),
        displacement=_displacement(cells, linked, lengths),
    )


def _displacement(cells: Cells, linked: Tensor, lengths: Tensor) -> float:
    """Mean |i/n - j/m| over links to real words."""
    n, m = lengths.long().unbind(1)
    pair = torch.arange(len(n)).repeat_interleave(m)
    j = torch.arange(len(pair)) - (m.cumsum(0) - m)[pair] + 1
    real = linked & (cells.place != NULL)
    slot, place = cells.slot[real], cells.place[real]
    gaps = (place / n[pair][slot] - j[slot] / m[pair][slot]).abs()
    return float(gaps.mean()) if len(gaps) else 0.0


LABELS: Dict[str, str] = {
    "sentences": "sentence pairs",
    "source_words": "source words",
    "target_words": "target words",
    "target_subwords": "target subwords",
    "source_types": "distinct source words",
    "target_types": "distinct target words",
    "source_length": "source words per sentence",
    "target_length": "target words per sentence",
    "length_ratio": "target / source words, mean",
    "length_ratio_deviation": "target / source words, deviation",
    "entropy_by_type": "entropy of target given source word, bits (types)",
    "entropy_by_token": "entropy of target given source word, bits (tokens)",
    "fertility": "fertility, mean",
    "fertility_deviation": "fertility, deviation",
    "fertility_entropy": "entropy of fertility given source word, bits",
    "silent": "source words without a target word",
    "unexplained": "target words without a source word",
    "displacement": "distance of links from the diagonal",
}
