"""Transformer layers: attention, feed-forward, norms.

Parameter names are those of fairseq's transformer, so that its checkpoints load without renaming.
Tensors are batch first.
"""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_gmlm.losses import at_least_float32
from fairseq_gmlm.models.attention import Attention, linear
from fairseq_gmlm.models.dropout import drop
from fairseq_gmlm.models.layer_options import LayerOptions

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}


class RMSNorm(nn.Module):
    """x / rms(x) * weight, without mean or bias (T5; eps 1e-6)."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # float32 statistics: a half-precision square overflows at 256.
        scale = torch.rsqrt(at_least_float32(x).square().mean(-1, keepdim=True) + self.eps)
        return (x * scale.to(x.dtype)) * self.weight


def build_norm(norm_type: str, width: int) -> nn.Module:
    """``layer`` or ``rms``."""
    return RMSNorm(width) if norm_type == "rms" else nn.LayerNorm(width)


class Block(nn.Module):
    """What encoder and decoder layers share: residual connections and the feed-forward part."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.pre_norm = options.pre_norm
        self.dropout, self.activation_dropout = options.dropout, options.activation_dropout
        self.activation = ACTIVATIONS[options.activation]
        self.self_attn = Attention(options)
        self.self_attn_layer_norm = build_norm(options.norm_type, options.width)
        self.fc1 = linear(options.width, options.ffn, options.bias)
        self.gate = linear(options.width, options.ffn, options.bias) if options.gated else None
        self.fc2 = linear(options.ffn, options.width, options.bias)
        self.final_layer_norm = build_norm(options.norm_type, options.width)

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Input of a block."""
        return norm(x) if self.pre_norm else x

    def after(self, norm: nn.Module, residual: Tensor, x: Tensor) -> Tensor:
        """Output of a block."""
        x = residual + drop(x, self.dropout, self.training)
        return x if self.pre_norm else norm(x)

    def attend_self(
        self, x: Tensor, mask: Optional[Tensor], need_weights: bool = False
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """The self-attention block."""
        inner = self.before(self.self_attn_layer_norm, x)
        keys, values = self.self_attn.project(inner)
        out, weights = self.self_attn(inner, keys, values, mask, need_weights)
        return self.after(self.self_attn_layer_norm, x, out), weights

    def feed_forward(self, x: Tensor) -> Tensor:
        """The feed-forward block: fc2(act(fc1 x)), or fc2(act(fc1 x) * gate x)."""
        inner = self.before(self.final_layer_norm, x)
        hidden = self.activation(self.fc1(inner))
        if self.gate is not None:
            hidden = hidden * self.gate(inner)
        out = self.fc2(drop(hidden, self.activation_dropout, self.training))
        return self.after(self.final_layer_norm, x, out)


class EncoderLayer(Block):
    """Self-attention and feed-forward."""

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        """(B, S, d) -> (B, S, d)."""
        x, _ = self.attend_self(x, mask)
        return self.feed_forward(x)


class DecoderLayer(Block):
    """Bidirectional self-attention, optional positional attention, cross-attention, feed-forward."""

    def __init__(self, options: LayerOptions, positional: bool = False) -> None:
        super().__init__(options)
        self.encoder_attn = Attention(options)
        self.encoder_attn_layer_norm = build_norm(options.norm_type, options.width)
        self.positional_attn = Attention(options) if positional else None

    def forward(
        self,
        x: Tensor,
        mask: Optional[Tensor],
        cross: Tuple[Tensor, Tensor],
        cross_mask: Optional[Tensor],
        places: Optional[Tensor] = None,
        need_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """One layer.

        Args:
            x: (R, T, d).
            mask: self-attention mask or bias.
            cross: keys and values of the source, (B, heads, S, head_dim), B dividing R.
            cross_mask: (B, 1, 1, S) or None.
            places: (R, T, d), normed position embeddings, for the positional sub-layer.
            need_weights: also return attention maps.

        Returns:
            (R, T, d) and the maps of self- and cross-attention, or None.
        """
        x, self_weights = self.attend_self(x, mask, need_weights)
        if self.positional_attn is not None:
            keys = self.positional_attn.split(self.positional_attn.k_proj(places))
            values = self.positional_attn.split(self.positional_attn.v_proj(x))
            x = x + self.positional_attn(places, keys, values, mask)[0]
        inner = self.before(self.encoder_attn_layer_norm, x)
        out, cross_weights = self.encoder_attn(inner, *cross, cross_mask, need_weights)
        x = self.after(self.encoder_attn_layer_norm, x, out)
        return self.feed_forward(x), self_weights, cross_weights
