"""Training stages: the model's own argmax feeds its next pass (spec 3.3)."""

from dataclasses import dataclass
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_gmlm.decoding.remasking import Remasking
from fairseq_gmlm.losses import TokenLoss, cross_entropy, gather
from fairseq_gmlm.models.lengths import LengthLoss, length_target


@dataclass
class Unrolling:
    """What the criterion asks the model to compute.

    Attributes:
        target: int64 (B, T), with BOS and EOS.
        weights: float (B, T), weights of the first stage's tokens.
        later_weights: float (B, T), weights of the later stages' tokens.
        free: bool (B, T), positions that a prediction may fill.
        stages: number of decoder passes.
        label_smoothing, z_loss: terms of the cross-entropy.
        length_smoothing: label smoothing of the length head.
        remasking: what of a stage's prediction is taken back before the next one, with T = stages
            in schedules; default: nothing.
    """

    target: Tensor
    weights: Tensor
    later_weights: Tensor
    free: Tensor
    stages: int = 1
    label_smoothing: float = 0.0
    length_smoothing: float = 0.0
    z_loss: float = 0.0
    remasking: Optional[Remasking] = None


class Unrolled(NamedTuple):
    """Sums over the batch.

    A tuple that begins with a loss, as everybody who hooks into modules expects of their outputs:
    torch's backward hooks, with which fairseq looks for the layer that gave NaN, and its wrappers.

    Attributes:
        stages: token losses, one for each pass.
        counts: number of positions with a weight, one for each pass.
        length: loss of the length head.
        rejecter: losses of the learned rejecter, one for each pass (empty without one).
    """

    stages: List[TokenLoss]
    counts: List[Tensor]
    length: Optional[LengthLoss] = None
    rejecter: Sequence[TokenLoss] = ()


@torch.no_grad()
def predict(
    states: Tensor,
    where: Tensor,
    weight: Tensor,
    banned: Tensor,
    total: Optional[Tensor] = None,
    slice_size: int = 1024,
) -> Tuple[Tensor, Tensor]:
    """Best allowed token and its log-probability at ``where``: int64 and float (B, T).

    Elsewhere the token is -1 and the log-probability 0. Slices bound the memory.

    Args:
        states: (B, T, d).
        where: bool (B, T), N True places.
        weight: (V, d), output matrix.
        banned: ids that cannot be predicted.
        total: float (N, V), logits summed over stages; these are added in place.
        slice_size: positions at a time.
    """
    hidden, index = gather(states.detach(), where)
    tokens = torch.full(where.shape, -1, dtype=torch.long, device=where.device)
    scores = torch.zeros(where.shape, device=where.device)
    for start in range(0, hidden.size(0), slice_size):
        part = slice(start, start + slice_size)
        logits = F.linear(hidden[part], weight.to(hidden.dtype)).float()
        logits.index_fill_(-1, banned, -torch.inf)
        if total is not None:
            total[part] += logits
        best, token = logits.max(-1)
        tokens.view(-1)[index[part]] = token
        scores.view(-1)[index[part]] = best - logits.logsumexp(-1)
    return tokens, scores


def unroll(model: Any, src_tokens: Tensor, src_lengths: Tensor, tokens: Tensor, plan: Unrolling):
    """Run all stages on one encoding of the source.

    Args:
        model: a ``gmlm_transformer``.
        src_tokens, src_lengths: the source.
        tokens: int64 (B, T), corrupted target.
        plan: what to compute.

    Returns:
        :class:`Unrolled`.
    """
    losses, counts, rejections = [], [], []
    memory = model.encode(src_tokens, src_lengths)
    real = plan.target.ne(model.vocabulary.pad)
    length = model.length_loss(memory, length_target(real), plan.length_smoothing)
    weight = model.decoder.output_projection.weight
    initial, remasking = tokens, plan.remasking
    total = None
    if remasking is not None and remasking.needs_logits and plan.stages > 1:
        total = tokens.new_zeros(int(plan.free.sum()), weight.size(0), dtype=torch.float)
    for stage in range(plan.stages):
        states = model.decoder(tokens, memory).states
        if model.cfg.freeze_decoder:
            states = states.detach()
        token_weight = plan.weights if stage == 0 else plan.later_weights
        hidden, index = gather(states, token_weight > 0)
        gold = plan.target.reshape(-1)[index]
        losses.append(
            cross_entropy(
                hidden,
                weight.detach() if model.cfg.freeze_decoder else weight,
                gold,
                token_weight.reshape(-1)[index],
                label_smoothing=plan.label_smoothing,
                z_loss=plan.z_loss,
            )
        )
        counts.append((token_weight > 0).sum())
        if stage + 1 == plan.stages and model.rejecter is None:
            break
        prediction, score = predict(states, plan.free, weight, model.banned, total)
        if model.rejecter is not None:
            rejections.append(
                model.rejecter_loss(states, prediction, plan.target, plan.later_weights)
            )
        if stage + 1 == plan.stages:
            break
        # Gold padding, BOS and EOS stay: a prediction at a pad would become a real token (8.5.1).
        draft = torch.where(plan.free, prediction, plan.target)
        if remasking is None:
            tokens = draft
            continue
        approval = None if model.rejecter is None else model.approval(states.detach())
        again = remasking.rejected(draft, score, plan.free, approval, stage, plan.stages)
        summed = None if total is None else summed_best(total, plan.free)
        tokens = torch.where(again, remasking.replacement(initial, tokens, summed), draft)
    return Unrolled(losses, counts, length, rejections)


def summed_best(total: Tensor, where: Tensor) -> Tensor:
    """Best tokens (B, T) by summed logits (N, V) of the N places of ``where``; -1 elsewhere."""
    best = torch.full(where.shape, -1, dtype=torch.long, device=where.device)
    return best.masked_scatter_(where, total.argmax(-1))
