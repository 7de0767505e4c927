"""Attention for a backward pass in half precision on a CPU."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_gmlm.models.dropout import drop


def attention(
    q: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor], rate: float, scale: float
) -> Tensor:
    """``scaled_dot_product_attention``, or the same in three steps where its gradient is slow.

    On CPUs the gradient of torch's fused kernel takes two to six times as long in bfloat16 as it
    does in float32 at the lengths of sentences; two products of bfloat16 with a float32 softmax
    between them are several times as fast as both.

    Args:
        q: (B, heads, T, head_dim).
        keys, values: (B, heads, S, head_dim).
        mask: bool (True: attend) or float added to the scores; broadcast to (B, heads, T, S).
        rate: dropout of the weights.
        scale: multiplier of the scores.

    Returns:
        (B, heads, T, head_dim).
    """
    half = q.dtype in (torch.bfloat16, torch.float16)
    if not (half and q.device.type == "cpu" and torch.is_grad_enabled() and q.requires_grad):
        return F.scaled_dot_product_attention(
            q, keys, values, attn_mask=mask, dropout_p=rate, scale=scale
        )
    scores = torch.matmul(q * scale, keys.transpose(-1, -2)).float()
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    weights = drop(scores.softmax(-1), rate, rate > 0.0)
    return torch.matmul(weights.to(values.dtype), values)
