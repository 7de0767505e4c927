"""Cross-entropy through the output matrix, without vocabulary-sized tensors left behind.

Plain label-smoothed cross-entropy keeps logits and log-probabilities, both (tokens x vocabulary)
in float32, until the backward pass. Here hidden states go through the output matrix in slices, the
gradient of each slice is taken at once, and only tensors of the hidden size are kept.
"""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.compat import autocast_dtype


class TokenLoss(NamedTuple):
    """Weighted sums over tokens.

    Attributes:
        loss: scalar with gradient: smoothed cross-entropy plus z-loss, in nats.
        nll: scalar, plain negative log-likelihood in nats (no gradient).
        correct: scalar, number of positions where no logit is above the target's (unweighted count).
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor


# Logits that pass through the softmax at a time: 1 MiB of float32 stays in the cache of a CPU; a GPU
# needs more to do at once, but not two float32 tensors of a whole slice.
_BLOCK = {"cpu": 1 << 18, "cuda": 1 << 23}


class _SlicedCrossEntropy(torch.autograd.Function):
    """Forward takes the gradient along; backward only scales it."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, target, token_weight, smoothing, z_loss, slice_size):
        need = ctx.needs_input_grad
        # float32 sums: half-precision ones lose small terms, and the loss scale comes only later.
        # float64 stays what it is, so that gradients can be checked against finite differences.
        wide = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden = torch.empty_like(hidden) if need[0] else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if need[1] else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if need[2] else None
        token_weight, matrix = token_weight.to(wide), weight.to(hidden.dtype)
        # The smoothed part needs only the mean over the vocabulary, which is linear in the states:
        # its loss and gradient come from the mean row, without a pass over all logits.
        mean_row = weight.mean(0, dtype=wide) if smoothing else None
        sums = torch.zeros(3, dtype=wide, device=hidden.device)
        for start in range(0, hidden.size(0), slice_size):
            part = slice(start, start + slice_size)
            h, y, w = hidden[part], target[part], token_weight[part]
            logits = torch.nn.functional.linear(h, matrix)
            gold, log_z, top = _log_normaliser(logits, bias, y, w, smoothing, z_loss, any(need[:3]))
            nll = log_z - gold
            loss = nll + z_loss * log_z.square() if z_loss else nll
            if smoothing:
                mean = h.to(wide) @ mean_row
                if bias is not None:
                    mean = mean + bias.mean(dtype=wide)
                loss = loss + smoothing * (gold - mean)
            sums[0] += (loss * w).sum()
            sums[1] += (nll * w).sum()
            sums[2] += (gold == top).sum()
            if not any(need[:3]):
                continue
            grad, flat = logits, smoothing * w  # flat: what is taken from all V logits, times V
            if grad_bias is not None:
                grad_bias += grad.sum(0, dtype=wide) - flat.sum() / weight.size(0)
            if grad_hidden is not None:
                torch.mm(grad, matrix, out=grad_hidden[part])
                if smoothing:
                    grad_hidden[part] -= (flat[:, None] * mean_row).to(h.dtype)
            if grad_weight is not None:
                grad_weight += torch.mm(grad.t(), h)
                if smoothing:
                    grad_weight -= (flat @ h.to(wide)) / weight.size(0)
        grads = (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
        )
        ctx.save_for_backward(*(x for x in grads if x is not None))
        ctx.present = tuple(x is not None for x in grads)
        ctx.mark_non_differentiable(sums)
        return sums[0].clone(), sums

    @staticmethod
    def backward(ctx, grad_loss, _):
        saved = iter(ctx.saved_tensors)
        grads = [next(saved) * grad_loss if here else None for here in ctx.present]
        return (*grads, None, None, None, None, None)


def _log_normaliser(
    logits: Tensor,
    bias: Optional[Tensor],
    target: Tensor,
    token_weight: Tensor,
    smoothing: float,
    z_loss: float,
    with_gradient: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Gold logit, log Z and largest logit of each row; the logits turn into their gradient.

    The gradient, d loss / d logits = w (softmax (1 + 2 z log Z) - (1 - eps) onehot), lacks only the
    part that is the same for the whole vocabulary, -w eps / V.

    Args:
        logits: (N, V), without bias; overwritten if ``with_gradient``.
        bias: (V,) or None.
        target, token_weight: (N,).
        smoothing, z_loss, with_gradient: see :func:`cross_entropy`.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    rows = max(1, _BLOCK.get(logits.device.type, _BLOCK["cuda"]) // logits.size(1))
    gold, log_z, top = (token_weight.new_empty(logits.size(0), dtype=wide) for _ in range(3))
    for start in range(0, logits.size(0), rows):
        block = slice(start, start + rows)
        y, w = target[block, None], token_weight[block]
        x = logits[block].to(wide)
        if bias is not None:
            x = x + bias.to(wide)
        gold[block] = x.gather(-1, y).squeeze(-1)
        top[block] = best = x.amax(-1)
        if not with_gradient:
            log_z[block] = x.logsumexp(-1)
            continue
        probs = x.softmax(-1)
        # The largest probability is at least 1 / V, so its logarithm is exact enough.
        log_z[block] = here = best - probs.amax(-1).log()
        probs *= (w * (1.0 + 2.0 * z_loss * here) if z_loss else w)[:, None]
        probs.scatter_add_(-1, y, (w * (smoothing - 1.0))[:, None].to(wide))
        logits[block] = probs
    return gold, log_z, top


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision becomes float32; float64 stays, so that gradients can be checked in it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    token_weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    slice_size: int = 1024,
) -> TokenLoss:
    """Weighted sum of label-smoothed cross-entropies of ``hidden @ weight.T (+ bias)``.

    Args:
        hidden: (N, d), states at the positions that count, gathered beforehand.
        weight: (V, d), output matrix.
        target: int64 (N,).
        token_weight: float (N,), default 1 for each.
        bias: (V,) or None.
        label_smoothing: epsilon; that share of the target mass is spread evenly over V.
        z_loss: weight of log(Z)^2 (T5X), which keeps the normaliser near 1.
        slice_size: tokens per slice; bounds memory, does not change the result.

    Returns:
        sums over the N tokens. With N = 0 a zero that still has a gradient.
    """
    if token_weight is None:
        token_weight = torch.ones_like(target, dtype=torch.float32)
    if not torch.is_grad_enabled():  # validation: spare the gradients that forward would take
        hidden, weight = hidden.detach(), weight.detach()
        bias = None if bias is None else bias.detach()
    dtype = autocast_dtype(hidden.device.type)
    if dtype is not None:
        hidden = hidden.to(dtype)
    token_weight = token_weight.detach()
    token_weight = token_weight.to(torch.promote_types(token_weight.dtype, torch.float32))
    with torch.autocast(hidden.device.type, enabled=False):  # the slices choose their own dtypes
        loss, sums = _SlicedCrossEntropy.apply(
            hidden, weight, bias, target, token_weight, label_smoothing, z_loss, slice_size
        )
    return TokenLoss(loss, sums[1], sums[2])


def gather(states: Tensor, where: Tensor) -> Tuple[Tensor, Tensor]:
    """States at the True places of ``where``: ((N, d), flat indices (N,)) from (B, T, d), (B, T)."""
    index = where.reshape(-1).nonzero().squeeze(1)
    return states.reshape(-1, states.size(-1)).index_select(0, index), index
