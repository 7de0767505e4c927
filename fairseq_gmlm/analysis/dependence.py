"""How strongly target positions attend to each other, where a chain stutters and where it does not.

The strength of a pair is dep(i, j) = (A_ij + A_ji) / 2 with self-attention A, averaged (or the
largest) over heads and averaged over the last layers. Product laws ignore exactly this dependence,
so it should be larger where they go wrong. Attention weights sum to one over the sentence, so that
long sentences, in which stutter is frequent, have smaller ones: hence also differences taken within
each sentence.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.analysis.decoder import Decoded
from fairseq_gmlm.analysis.intervals import Bootstrap, Rate

HEADS = ("mean", "max")
GROUPS = ("stutter", "adjacent", "distant", "entropy_stutter", "entropy_other")


class Maps(NamedTuple):
    """Attention of one pass over padded canvases, reduced over layers and heads.

    Attributes:
        inner: (R, T, T), of words on words; cross: (R, T, S).
        entropy: (R, T), of the attention on the source in nats, mean over the layers and heads.
    """

    inner: Tensor
    cross: Tensor
    entropy: Tensor


def reduce_maps(decoded: Any, layers: int, heads: str) -> Maps:
    """Mean over the last ``layers`` layers (0: all) of the mean or maximum over heads."""
    inner = decoded.self_attention[:, -layers:].float()
    cross = decoded.cross_attention[:, -layers:].float()
    entropy = torch.special.entr(cross).sum(-1).mean((1, 2))
    inner = inner.amax(2) if heads == "max" else inner.mean(2)
    return Maps(inner.mean(1), cross.mean((1, 2)), entropy)


def attention_of(
    model: Any,
    memory: Any,
    canvases: Sequence[Tensor],
    rows: Sequence[int],
    layers: int,
    heads: str,
) -> Maps:
    """Maps of one pass that reads ``canvases``.

    Args:
        model: a GMLM; memory: its encoding of a batch.
        canvases: int64 (T,) each, words between BOS and EOS.
        rows: sentence of each canvas.
        layers, heads: see :func:`reduce_maps`.

    Returns:
        maps whose row and column 0 is BOS.
    """
    vocabulary = model.vocabulary
    device = memory.states.device
    width = max(len(canvas) for canvas in canvases) + 2
    tokens = torch.full((len(canvases), width), vocabulary.pad, dtype=torch.long)
    for row, canvas in zip(tokens, canvases):
        row[0], row[len(canvas) + 1] = vocabulary.bos, vocabulary.eos
        row[1 : len(canvas) + 1] = canvas
    part = memory.select(torch.tensor(list(rows), device=device))
    with torch.no_grad():
        decoded = model.decode(tokens.to(device), part, True, need_weights=True)
    return reduce_maps(decoded, layers, heads)


def pair_sums(inner: Tensor, entropy: Tensor, predicted: Tensor, draft: Tensor) -> Tensor:
    """Sums and counts of one sentence in one pass, float64 (groups, 2), in the order of GROUPS.

    Only positions that the pass predicted count, for only they are drawn from a product law.

    Args:
        inner: (T, T) attention among the words; entropy: (T,).
        predicted: bool (T,); draft: int64 (T,), what was predicted there.
    """
    dep = (inner + inner.t()) / 2
    both = predicted[1:] & predicted[:-1]
    same = both & draft[1:].eq(draft[:-1])
    beside = dep.diagonal(1)
    far = (predicted[:, None] & predicted).triu(2)
    stuttered = torch.zeros_like(predicted)
    stuttered[1:] |= same
    stuttered[:-1] |= same
    chosen = (
        (beside, same),
        (beside, both & ~same),
        (dep, far),
        (entropy, stuttered),
        (entropy, predicted & ~stuttered),
    )
    sums = [(values.double().masked_select(where).sum(), where.sum()) for values, where in chosen]
    return torch.tensor([[float(total), float(count)] for total, count in sums]).double()


def batch_sums(
    model: Any, batch: Dict[str, Any], sentences: List[Decoded], layers: int, heads: str
) -> List[Tensor]:
    """For each pass: sums of the batch's sentences, float64 (B, groups, 2); zero where none ran.

    The best candidate's chain is looked at. One more decoder run for each pass.
    """
    with torch.no_grad():
        memory = model.encode(batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"])
    found = []
    most = max(len(sentence.chains[0].steps) for sentence in sentences)
    for number in range(most):
        sums = torch.zeros(len(sentences), len(GROUPS), 2, dtype=torch.float64)
        rows = [i for i, s in enumerate(sentences) if len(s.chains[0].steps) > number]
        steps = [sentences[i].chains[0].steps[number] for i in rows]
        maps = attention_of(model, memory, [step.shown for step in steps], rows, layers, heads)
        for place, (row, step) in enumerate(zip(rows, steps)):
            inside = slice(1, len(step.draft) + 1)
            inner = maps.inner[place, inside, inside].cpu()
            entropy = maps.entropy[place, inside].cpu()
            sums[row] = pair_sums(inner, entropy, step.predicted, step.draft)
        found.append(sums)
    return found


@dataclass(frozen=True)
class Dependence:
    """Strengths of one pass, or of all.

    Attributes:
        stutter, adjacent, distant: mean dep of neighbours that are equal, of other neighbours, and
            of pairs further apart.
        difference: stutter minus adjacent.
        within: the same difference inside each sentence that has both kinds, then averaged.
        entropy_stutter, entropy_other: mean entropy of the attention on the source, in nats.
        entropy_difference: the first minus the second.
    """

    stutter: Rate
    adjacent: Rate
    distant: Rate
    difference: Rate
    within: Rate
    entropy_stutter: Rate
    entropy_other: Rate
    entropy_difference: Rate


def summarise(sums: Tensor, bootstrap: Bootstrap) -> Dependence:
    """From sums and counts of every sentence, float64 (N, groups, 2)."""
    groups = {name: sums[:, place] for place, name in enumerate(GROUPS)}
    rates = {name: bootstrap.rate(*pair.unbind(1)) for name, pair in groups.items()}
    both = (groups["stutter"][:, 1] > 0) & (groups["adjacent"][:, 1] > 0)
    first, second = groups["stutter"][both], groups["adjacent"][both]
    gaps = first[:, 0] / first[:, 1] - second[:, 0] / second[:, 1]
    return Dependence(
        difference=bootstrap.difference(groups["stutter"], groups["adjacent"]),
        within=bootstrap.rate(gaps.tolist(), [1.0] * len(gaps)),
        entropy_difference=bootstrap.difference(groups["entropy_stutter"], groups["entropy_other"]),
        **rates,
    )
