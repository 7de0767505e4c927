"""Transformer layers: attention that shares keys between candidates, feed-forward, norms.

Parameter names are those of fairseq's transformer, so that its checkpoints load without renaming.
Tensors are batch first.
"""

import math
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_gmlm.losses import at_least_float32
from fairseq_gmlm.models.dropout import drop
from fairseq_gmlm.models.training_attention import attention

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}


class LayerOptions(NamedTuple):
    """What a layer needs to know, the same for every layer of a stack.

    Attributes:
        width: model width d.
        ffn: inner width of the feed-forward part.
        heads: number of attention heads.
        head_dim: width of a head.
        pre_norm: normalise before each block, else after.
        norm_type: ``layer`` or ``rms``.
        bias: linear layers have biases.
        scale: multiplier of attention scores.
        gated, activation: kind of feed-forward.
        dropout, attention_dropout, activation_dropout: probabilities.
    """

    width: int
    ffn: int
    heads: int
    head_dim: int
    pre_norm: bool
    norm_type: str
    bias: bool
    scale: float
    gated: bool
    activation: str
    dropout: float
    attention_dropout: float
    activation_dropout: float

    @classmethod
    def of(cls, cfg, side: str) -> "LayerOptions":
        """From a model's configuration, for its ``encoder`` or ``decoder``."""
        get = lambda name: getattr(cfg, f"{side}_{name}")  # noqa: E731
        width, heads = get("embed_dim"), get("attention_heads")
        head_dim = cfg.head_dim or width // heads
        if not cfg.head_dim and width % heads:
            raise ValueError(
                f"--{side}-embed-dim {width} is not a multiple of "
                f"--{side}-attention-heads {heads}; change one or set --head-dim"
            )
        return cls(
            width=width,
            ffn=get("ffn_embed_dim"),
            heads=heads,
            head_dim=head_dim,
            pre_norm=get("normalize_before"),
            norm_type=str(cfg.norm_type),
            bias=not cfg.no_bias,
            scale=1.0 if cfg.no_scale_attention else head_dim**-0.5,
            gated=cfg.gated_ffn,
            activation=str(cfg.activation_fn),
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            activation_dropout=cfg.activation_dropout,
        )


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
