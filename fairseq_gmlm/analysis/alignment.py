"""Word alignment by expectation maximisation: IBM model 1 with a prior for the diagonal.

The model is that of Dyer, Chahuneau and Smith (2013) with its tension held fixed. The aligners on
PyPI do not fit: eflomal is under the GPL, samples at random and gives links but no distribution;
NLTK's models loop over words in Python; the others need a neural model. The analysis wants the
distribution itself, exactly and the same in every run, and vectorised it is a page of code.
"""

from dataclasses import dataclass
from typing import List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

NULL = 0  # the source word that stands for "nothing"; real words have ids from 1
Pairs = Sequence[Tuple[Sequence[int], Sequence[int]]]


class Cells(NamedTuple):
    """All pairs of a target word with a source word of its sentence, or with NULL, flat.

    Attributes:
        source, target: int64 (C,), word ids.
        slot: int64 (C,), number of the target word in the corpus, ascending.
        place: int64 (C,), place of the source word in its sentence, 0 for NULL, the first is 1.
        prior: float64 (C,), p(place | lengths and place of the target word); sums to 1 in a slot.
        slots: number of target words.
    """

    source: Tensor
    target: Tensor
    slot: Tensor
    place: Tensor
    prior: Tensor
    slots: int


def make_cells(pairs: Pairs, null: float = 0.08, tension: float = 4.0) -> Cells:
    """Lay out a corpus.

    Args:
        pairs: source and target sentences as word ids from 1.
        null: prior probability of NULL; all of it where the source is empty.
        tension: the prior of place i for target place j falls as exp(-tension |i/n - j/m|).
    """
    n = torch.tensor([len(source) for source, _ in pairs], dtype=torch.long)
    m = torch.tensor([len(target) for _, target in pairs], dtype=torch.long)
    words = torch.tensor([w for source, _ in pairs for w in source], dtype=torch.long)
    targets = torch.tensor([w for _, target in pairs for w in target], dtype=torch.long)
    pair = torch.arange(len(pairs)).repeat_interleave(m)  # of each slot
    j = torch.arange(len(targets)) - (m.cumsum(0) - m)[pair] + 1
    size = n[pair] + 1
    slot = torch.arange(len(targets)).repeat_interleave(size)
    place = torch.arange(len(slot)) - (size.cumsum(0) - size)[slot]
    index = (n.cumsum(0) - n)[pair][slot] + place - 1
    padded = torch.cat([words, words.new_zeros(1)])  # index -1 is read where the place is NULL
    source = torch.where(place == 0, NULL, padded[index])
    length, width = n[pair][slot].double(), m[pair][slot].double()
    weight = torch.exp(-tension * (place / length.clamp(min=1) - j[slot] / width).abs())
    weight = weight.masked_fill(place == 0, 0.0)
    total = torch.zeros(len(targets), dtype=torch.float64).index_add_(0, slot, weight)[slot]
    share = torch.full_like(weight, null).masked_fill(length == 0, 1.0)
    prior = torch.where(place == 0, share, (1 - null) * weight / total.clamp(min=1e-300))
    return Cells(source, targets[slot], slot, place, prior, len(targets))


@dataclass(frozen=True)
class Lexicon:
    """p(target word | source word).

    Attributes:
        keys: int64 (U,), source * width + target of each pair seen together, ascending.
        probabilities: float64 (U,).
        counts: float64 (U,), expected number of links of each pair in the corpus.
        width: above every target id.
    """

    keys: Tensor
    probabilities: Tensor
    counts: Tensor
    width: int

    def of(self, cells: Cells) -> Tensor:
        """Probabilities of each cell's pair, float64 (C,).

        A pair never seen together has none; NULL gives every word at least a uniform probability,
        so that a word that nothing explains is left unaligned.
        """
        keys = cells.source * self.width + cells.target.clamp(max=self.width - 1)
        index = torch.searchsorted(self.keys, keys).clamp(max=max(len(self.keys) - 1, 0))
        found = self.probabilities[index] * (self.keys[index] == keys)
        found = found.masked_fill(cells.target >= self.width, 0.0)
        return torch.where(cells.source == NULL, found.clamp(min=1 / self.width), found)


def posteriors(cells: Cells, likelihood: Tensor) -> Tensor:
    """p(place | target word, sentence) of each cell, float64 (C,)."""
    joint = cells.prior * likelihood
    total = torch.zeros(cells.slots, dtype=joint.dtype).index_add_(0, cells.slot, joint)
    return joint / total[cells.slot].clamp(min=1e-300)


def train(cells: Cells, width: int, rounds: int = 5, smoothing: float = 0.0) -> Lexicon:
    """Fit a lexicon.

    Args:
        cells: the corpus.
        width: above every target id.
        rounds: of expectation maximisation, from a uniform start.
        smoothing: concentration of a symmetric Dirichlet prior, for variational Bayes, which
            keeps rare words from gathering what they do not mean; 0: maximum likelihood.
    """
    keys, cell_key = (cells.source * width + cells.target).unique(return_inverse=True)
    source = torch.div(keys, width, rounding_mode="floor")
    likelihood = torch.ones(len(keys), dtype=torch.float64)
    counts = torch.zeros_like(likelihood)
    for _ in range(rounds):
        weight = posteriors(cells, likelihood[cell_key])
        counts = torch.zeros_like(likelihood).index_add_(0, cell_key, weight)
        likelihood = _maximised(counts, source, smoothing)
    return Lexicon(keys, likelihood, counts, width)


def _maximised(counts: Tensor, source: Tensor, smoothing: float) -> Tensor:
    """Probabilities from expected counts."""
    size = int(source.max()) + 1 if len(source) else 0
    total = torch.zeros(size, dtype=counts.dtype).index_add_(0, source, counts)
    if smoothing == 0:
        return counts / total[source].clamp(min=1e-300)
    kinds = torch.bincount(source, minlength=size)
    upper = torch.digamma(counts + smoothing)
    return torch.exp(upper - torch.digamma(total + smoothing * kinds)[source])


def best_places(cells: Cells, likelihood: Tensor) -> Tensor:
    """Likeliest place of each target word, int64 (slots,): 0 is NULL, ties go to the left."""
    joint = cells.prior * likelihood
    best = torch.zeros(cells.slots, dtype=joint.dtype)
    best.scatter_reduce_(0, cells.slot, joint, "amax")
    places = torch.where(joint == best[cells.slot], cells.place, torch.iinfo(torch.long).max)
    first = torch.full((cells.slots,), torch.iinfo(torch.long).max)
    return first.scatter_reduce_(0, cells.slot, places, "amin")


def unaligned(lexicon: Lexicon, pairs: Pairs) -> List[int]:
    """Target words of each pair that NULL explains best."""
    cells = make_cells(pairs)
    alone = best_places(cells, lexicon.of(cells)).eq(NULL).tolist()
    found, start = [], 0
    for _, target in pairs:
        found.append(sum(alone[start : start + len(target)]))
        start += len(target)
    return found
