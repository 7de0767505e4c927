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
        correct: scalar, number of weighted positions whose argmax is the target (unweighted count).
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor


class _SlicedCrossEntropy(torch.autograd.Function):
    """Forward takes the gradient along; backward only scales it."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, target, token_weight, smoothing, z_loss, slice_size):
        need = ctx.needs_input_grad
        grad_hidden = torch.empty_like(hidden) if need[0] else None
        # float32 sums: half-precision ones lose small terms, and the loss scale comes only later.
        # float64 stays what it is, so that gradients can be checked against finite differences.
        wide = torch.promote_types(hidden.dtype, torch.float32)
        grad_weight = torch.zeros_like(weight, dtype=wide) if need[1] else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if need[2] else None
        sums = torch.zeros(3, dtype=wide, device=hidden.device)
        vocabulary = weight.size(0)
        for start in range(0, hidden.size(0), slice_size):
            part = slice(start, start + slice_size)
            h, y, w = hidden[part], target[part], token_weight[part]
            logits = torch.nn.functional.linear(h, weight.to(h.dtype)).to(wide)
            if bias is not None:
                logits += bias.to(wide)
            log_z = logits.logsumexp(-1)
            gold = logits.gather(-1, y[:, None]).squeeze(-1)
            sums[2] += (logits.argmax(-1) == y).sum()
            nll = log_z - gold
            # mean over the vocabulary of -log p, from the mean of the logits alone
            smooth = log_z - logits.mean(-1)
            loss = (1.0 - smoothing) * nll + smoothing * smooth + z_loss * log_z.square()
            sums[0] += (loss * w).sum()
            sums[1] += (nll * w).sum()
            if not any(need[:3]):
                continue
            # d loss / d logits = softmax * (1 + 2 z log_z) - (1 - eps) onehot - eps / V
            grad = logits.sub_(log_z[:, None]).exp_()
            if z_loss:
                grad *= (1.0 + 2.0 * z_loss * log_z)[:, None]
            if smoothing:
                grad -= smoothing / vocabulary
            grad.scatter_add_(-1, y[:, None], grad.new_full((y.size(0), 1), smoothing - 1.0))
            grad *= w[:, None]
            if grad_bias is not None:
                grad_bias += grad.sum(0)
            grad = grad.to(h.dtype)
            if grad_hidden is not None:
                torch.mm(grad, weight.to(h.dtype), out=grad_hidden[part])
            if grad_weight is not None:
                grad_weight += torch.mm(grad.t(), h)
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
