"""Transformer layers for decoding: fewer and larger products, nothing that only training needs.

They hold the weights of the layers they are made from and compute the same; tests compare the two.
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from fairseq_gmlm.decoding.kernels import LinearFactory
from fairseq_gmlm.models.attention import Attention, attend
from fairseq_gmlm.models.layers import Block, DecoderLayer

KeysValues = Tuple[Tensor, Tensor]


class FusedSelfAttention(nn.Module):
    """Self-attention with one product for queries, keys and values."""

    def __init__(self, attention: Attention, linear: LinearFactory) -> None:
        super().__init__()
        self.heads, self.head_dim = attention.heads, attention.head_dim
        self.scale = attention.scale
        self.qkv_proj = linear(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out_proj = linear(attention.out_proj)

    def forward(
        self,
        x: Tensor,
        mask: Optional[Tensor],
        need_weights: bool = False,
        columns: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """(R, T, d) -> (R, T, d), and weights (R, heads, T, T) or None.

        With ``columns``, int64 (R, n), only these positions ask: (R, n, d).
        """
        rows, length, _ = x.shape
        parts = self.qkv_proj(x).view(rows, length, 3, self.heads, self.head_dim)
        q, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if columns is not None:
            q = q.gather(2, columns[:, None, :, None].expand(-1, q.size(1), -1, q.size(3)))
            if mask is not None and mask.size(2) > 1:
                wanted = columns[:, None, :, None]
                mask = mask.expand(rows, -1, -1, -1)
                mask = mask.gather(2, wanted.expand(-1, mask.size(1), -1, mask.size(3)))
        out, weights = attend(q, keys, values, mask, self.scale, rows, need_weights=need_weights)
        return self.out_proj(out), weights


class FusedBlock(nn.Module):
    """Self-attention and feed-forward of a finished layer."""

    def __init__(self, layer: Block, linear: LinearFactory) -> None:
        super().__init__()
        self.pre_norm = layer.pre_norm
        self.self_attn = FusedSelfAttention(layer.self_attn, linear)
        self.self_attn_layer_norm = layer.self_attn_layer_norm
        self.final_layer_norm = layer.final_layer_norm
        relu = layer.activation is torch.nn.functional.relu
        self.activation = None if relu else layer.activation
        self.fc1 = linear(layer.fc1, relu=relu)
        self.gate = None if layer.gate is None else linear(layer.gate)
        self.fc2 = linear(layer.fc2)

    def attend_self(
        self,
        x: Tensor,
        mask: Optional[Tensor],
        need_weights: bool = False,
        columns: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """The self-attention block, of all positions or of ``columns``."""
        norm = self.self_attn_layer_norm
        inner = norm(x) if self.pre_norm else x
        out, weights = self.self_attn(inner, mask, need_weights, columns)
        x = (x if columns is None else at_columns(x, columns)) + out
        return x if self.pre_norm else norm(x), weights

    def feed_forward(self, x: Tensor) -> Tensor:
        """The feed-forward block."""
        inner = self.final_layer_norm(x) if self.pre_norm else x
        hidden = self.fc1(inner)
        if self.activation is not None:
            hidden = self.activation(hidden)
        if self.gate is not None:
            hidden = hidden * self.gate(inner)
        x = x + self.fc2(hidden)
        return x if self.pre_norm else self.final_layer_norm(x)


class FusedEncoderLayer(FusedBlock):
    """As :class:`~fairseq_gmlm.models.layers.EncoderLayer`."""

    def forward(self, x: Tensor, mask: Optional[Tensor]) -> Tensor:
        """(B, S, d) -> (B, S, d)."""
        x, _ = self.attend_self(x, mask)
        return self.feed_forward(x)


class FusedDecoderLayer(FusedBlock):
    """As :class:`~fairseq_gmlm.models.layers.DecoderLayer`."""

    def __init__(self, layer: DecoderLayer, linear: LinearFactory) -> None:
        super().__init__(layer, linear)
        cross = layer.encoder_attn
        self.heads, self.head_dim, self.scale = cross.heads, cross.head_dim, cross.scale
        self.q_proj, self.out_proj = linear(cross.q_proj), linear(cross.out_proj)
        self.encoder_attn_layer_norm = layer.encoder_attn_layer_norm
        self.positional_attn = None
        if layer.positional_attn is not None:
            self.positional_attn = with_linears(layer.positional_attn, linear)

    def forward(
        self,
        x: Tensor,
        mask: Optional[Tensor],
        cross: KeysValues,
        cross_mask: Optional[Tensor],
        places: Optional[Tensor] = None,
        need_weights: bool = False,
        columns: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """One layer; arguments and results as in ``DecoderLayer``.

        With ``columns``, int64 (R, n), only these positions are computed: (R, n, d). The last layer
        of a pass has no other use for the rest.
        """
        later = None
        if self.positional_attn is not None:  # reads the whole output of the self-attention
            later, columns = columns, None
        x, self_weights = self.attend_self(x, mask, need_weights, columns)
        if self.positional_attn is not None:
            keys = self.positional_attn.split(self.positional_attn.k_proj(places))
            values = self.positional_attn.split(self.positional_attn.v_proj(x))
            x = x + self.positional_attn(places, keys, values, mask)[0]
            x = x if later is None else at_columns(x, later)
        out, cross_weights = self._attend_source(x, cross, cross_mask, need_weights)
        x = x + out
        if not self.pre_norm:
            x = self.encoder_attn_layer_norm(x)
        return self.feed_forward(x), self_weights, cross_weights

    def _attend_source(
        self, x: Tensor, cross: KeysValues, mask: Optional[Tensor], need_weights: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Cross-attention of the rows (R, T, d), those of one source folded into the length."""
        inner = self.encoder_attn_layer_norm(x) if self.pre_norm else x
        keys, values = cross
        q = self.q_proj(inner).view(keys.size(0), -1, self.heads, self.head_dim).transpose(1, 2)
        out, weights = attend(
            q, keys, values, mask, self.scale, x.size(0), need_weights=need_weights
        )
        return self.out_proj(out), weights


class FusedMemoryProjection(nn.Module):
    """Keys and values of the source for every decoder layer, in one product."""

    def __init__(self, layers: Sequence[DecoderLayer], linear: LinearFactory) -> None:
        super().__init__()
        attentions = [layer.encoder_attn for layer in layers]
        self.layers, self.heads = len(attentions), attentions[0].heads
        self.head_dim = attentions[0].head_dim
        self.proj = linear(*(part for a in attentions for part in (a.k_proj, a.v_proj)))

    def forward(self, states: Tensor) -> List[KeysValues]:
        """(B, S, d) -> for each layer keys and values (B, heads, S, head_dim)."""
        batch, length, _ = states.shape
        wide = self.proj(states).view(batch, length, 2 * self.layers, self.heads, self.head_dim)
        # Every pass reads them: once in order is cheaper than strided each time.
        parts = wide.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        return list(zip(parts[0::2], parts[1::2]))


def at_columns(x: Tensor, columns: Tensor) -> Tensor:
    """(R, n, d) of (R, T, d), at ``columns`` (R, n)."""
    return x.gather(1, columns[..., None].expand(-1, -1, x.size(-1)))


def with_linears(module: nn.Module, linear: LinearFactory) -> nn.Module:
    """A shallow copy of a module whose children that are linear layers are made anew."""
    made = shallow(module)
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(made, name, linear(child))
    made.training = False
    return made


def shallow(module: nn.Module) -> nn.Module:
    """A module with the same parts, whose parts can be exchanged without touching the original."""
    made = module.__class__.__new__(module.__class__)
    made.__dict__ = dict(module.__dict__)
    for name in ("_modules", "_parameters", "_buffers"):
        made.__dict__[name] = dict(module.__dict__[name])
    return made
