"""Losses of the language model's training passes."""

from typing import Any

import torch
from torch import Tensor

from fairseq_gmlm.losses import cross_entropy, gather
from fairseq_gmlm.models.unrolling import Unrolled, Unrolling


def masked_loss(model: Any, tokens: Tensor, plan: Unrolling) -> Unrolled:
    """Cross-entropies of all stages; a later stage reads the model's own best guesses (spec 3.3).

    u-PMLM trains with one stage. The result has no length loss, as nobody predicts one.

    Args:
        model: a ``gmlm_lm``.
        tokens: int64 (B, T), the corrupted text.
        plan: what to compute.
    """
    losses, counts = [], []
    weight, bias = model.encoder.embed_tokens.weight, model.lm_head.bias
    for stage in range(plan.stages):
        states = model.encoder(tokens)
        token_weight = plan.weights if stage == 0 else plan.later_weights
        # Only what counts goes through the head and the output matrix.
        hidden, index = gather(states, token_weight > 0)
        losses.append(
            cross_entropy(
                model.lm_head(hidden),
                weight,
                plan.target.reshape(-1)[index],
                token_weight.reshape(-1)[index],
                bias=bias,
                label_smoothing=plan.label_smoothing,
                z_loss=plan.z_loss,
            )
        )
        counts.append((token_weight > 0).sum())
        if stage + 1 < plan.stages:
            tokens = torch.where(plan.free, best_tokens(model, states), plan.target)
    return Unrolled(losses, counts)


@torch.no_grad()
def best_tokens(model: Any, states: Tensor) -> Tensor:
    """The likeliest allowed token of every position, int64 (B, T), from states (B, T, d)."""
    rows = [model.logits(model.lm_head(row)) for row in states.detach()]
    return torch.stack([row.index_fill(-1, model.banned, -torch.inf).argmax(-1) for row in rows])
