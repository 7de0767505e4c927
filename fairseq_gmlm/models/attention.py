"""Multi-head attention that shares keys and values between the candidates of a sentence.

Parameter names are those of fairseq's. Tensors are batch first.
"""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from fairseq_gmlm.losses import at_least_float32
from fairseq_gmlm.models.layer_options import LayerOptions
from fairseq_gmlm.models.training_attention import attention


def linear(inputs: int, outputs: int, bias: bool, gain: float = 1.0) -> nn.Linear:
    """fairseq's initialisation: Xavier uniform, zero bias."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain=gain)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Optional[Tensor],
    scale: float,
    rows: int,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Attention of all heads, given projections.

    Args:
        q: (B, heads, K * T, head_dim), the K rows of each source side by side.
        keys, values: (B, heads, S, head_dim).
        mask: bool (True: attend) or float added to the scores; broadcast to (B, heads, K * T, S).
        scale: multiplier of the scores.
        rows: R = K * B.
        dropout: probability, of the weights (not where they are asked for).
        need_weights: also return the weights (slower).

    Returns:
        (R, T, heads * head_dim), and weights (R, heads, T, S) or None.
    """
    batch, heads, folded, _ = q.shape
    length = folded * batch // rows
    weights = None
    if need_weights:
        scores = torch.matmul(q, keys.transpose(-1, -2)) * scale
        if mask is not None:
            scores = (
                scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            )
        probs = at_least_float32(scores).softmax(-1).to(q.dtype)
        out = torch.matmul(probs, values)
        weights = probs.view(batch, heads, rows // batch, length, -1).transpose(1, 2)
        weights = weights.reshape(rows, heads, length, -1)
    else:
        out = attention(q, keys, values, mask, dropout, scale)
    return out.transpose(1, 2).reshape(rows, length, -1), weights


class Attention(nn.Module):
    """Multi-head attention over given keys and values."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        inner = options.heads * options.head_dim
        self.heads, self.head_dim, self.scale = options.heads, options.head_dim, options.scale
        self.dropout = options.attention_dropout
        gain = 1 / math.sqrt(2)
        self.k_proj = linear(options.width, inner, options.bias, gain)
        self.v_proj = linear(options.width, inner, options.bias, gain)
        # Where scores are not divided by sqrt(head_dim), the queries start that much smaller (T5).
        fold = options.head_dim**-0.5 if options.scale == 1.0 else 1.0
        self.q_proj = linear(options.width, inner, options.bias, gain * fold)
        self.out_proj = linear(inner, options.width, options.bias)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, heads * head_dim) -> (B, heads, T, head_dim)."""
        return x.view(x.size(0), x.size(1), self.heads, self.head_dim).transpose(1, 2)

    def project(self, memory: Tensor) -> Tuple[Tensor, Tensor]:
        """Keys and values of ``memory`` (B, S, d), each (B, heads, S, head_dim)."""
        return self.split(self.k_proj(memory)), self.split(self.v_proj(memory))

    def forward(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Optional[Tensor] = None,
        need_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attend.

        Args:
            x: queries, (R, T, d). R is the batch of ``keys``, or a multiple K of it whose
                rows b*K .. b*K+K-1 share row b of the keys: they are folded into the length, so
                that the candidates of a sentence read one copy of its memory.
            keys, values: (B, heads, S, head_dim).
            mask: bool (True: attend) or float added to the scores; broadcast to (B, heads, T, S).
            need_weights: also return the attention weights.

        Returns:
            (R, T, d), and weights (R, heads, T, S) or None.
        """
        batch = keys.size(0)
        q = self.split(self.q_proj(x).reshape(batch, -1, self.heads * self.head_dim))
        dropout = self.dropout if self.training else 0.0
        out, weights = attend(q, keys, values, mask, self.scale, x.size(0), dropout, need_weights)
        return self.out_proj(out), weights
