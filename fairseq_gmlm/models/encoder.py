"""The source encoder."""

import math
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from fairseq_gmlm.models.dropout import drop
from fairseq_gmlm.models.layer_options import LayerOptions
from fairseq_gmlm.models.layers import EncoderLayer, build_norm
from fairseq_gmlm.models.positions import RelativeBias, build_positions


def attention_mask(real: Tensor, bias: Optional[Tensor] = None) -> Optional[Tensor]:
    """Mask for scaled_dot_product_attention: bool (B, 1, 1, S), or float with ``bias`` in it."""
    mask = real[:, None, None, :]
    return mask if bias is None else bias.masked_fill(~mask, -torch.inf)


class TransformerStack(nn.Module):
    """Embedding, positions, layers and final norm of one side; bidirectional."""

    def build_stack(self, cfg: Any, side: str, embed_tokens: nn.Embedding, layer: Any) -> None:
        """Create the parts; names are fairseq's."""
        options = LayerOptions.of(cfg, side)
        self.embed_tokens = embed_tokens
        self.padding_idx = embed_tokens.padding_idx
        self.embed_scale = 1.0 if cfg.no_scale_embedding else math.sqrt(options.width)
        self.max_length = (
            cfg.max_source_positions if side == "encoder" else cfg.max_target_positions
        )
        self.dropout = cfg.dropout
        self.relative_bias = self.embed_positions = None
        if cfg.relative_positions:
            self.relative_bias = RelativeBias(
                cfg.relative_buckets, cfg.relative_max_distance, options.heads
            )
        else:
            learned = getattr(cfg, f"{side}_learned_pos")
            # One more than the longest: a length token may stand in front.
            self.embed_positions = build_positions(
                learned, self.max_length, options.width, self.padding_idx
            )
        self.layernorm_embedding = (
            build_norm(options.norm_type, options.width) if cfg.layernorm_embedding else None
        )
        count = getattr(cfg, f"{side}_layers")
        self.layers = nn.ModuleList([layer(options) for _ in range(count)])
        self.layer_norm = build_norm(options.norm_type, options.width) if options.pre_norm else None

    def embed(self, tokens: Tensor, real: Tensor) -> Tensor:
        """(B, T) -> (B, T, d)."""
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.embed_positions is not None:
            x = x + self.embed_positions(real)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return drop(x, self.dropout, self.training)

    def self_mask(
        self, real: Tensor, padded: bool, dtype: torch.dtype, front: int = 0
    ) -> Optional[Tensor]:
        """Mask or bias of the self-attention; None where everything is attended alike.

        The first ``front`` tokens have no position: left padding would shift them away from the
        words, so they neither give nor get a relative bias.
        """
        if self.relative_bias is not None:
            bias = self.relative_bias(real.size(1) - front).to(dtype)
            bias = F.pad(bias, (front, 0, front, 0)) if front else bias
            return attention_mask(real, bias) if padded else bias
        return attention_mask(real) if padded else None


class GMLMEncoder(FairseqEncoder, TransformerStack):
    """Source tokens to states, with a length token in front where the length head wants one."""

    def __init__(
        self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, length_token: Optional[int]
    ) -> None:
        super().__init__(dictionary)
        self.build_stack(cfg, "encoder", embed_tokens, EncoderLayer)
        self.length_token = length_token
        if length_token is not None:
            # A vector of its own: the token has no position among the words.
            self.length_query = nn.Parameter(torch.empty(embed_tokens.embedding_dim))
            nn.init.normal_(self.length_query, std=1.0)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None) -> Tuple:
        """Encode.

        Args:
            src_tokens: int64 (B, S), padded on either side.
            src_lengths: unused; fairseq passes it.

        Returns:
            states (B, S, d), real (B, S), whether anything is padded, and the length token's
            state (B, d) or None.
        """
        real = src_tokens.ne(self.padding_idx)
        padded = not bool(real.all())  # one synchronisation per batch, not per pass
        x = self.embed(src_tokens, real)
        if self.length_token is not None:
            query = self.length_query.to(x.dtype).expand(x.size(0), 1, -1)
            x = torch.cat([query, x], 1)
            real = F.pad(real, (1, 0), value=True)
        mask = self.self_mask(real, padded, x.dtype, x.size(1) - src_tokens.size(1))
        for layer in self.layers:
            x = layer(x, mask)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.length_token is None:
            return x, real, padded, None
        return x[:, 1:], real[:, 1:], padded, x[:, 0]

    def max_positions(self) -> int:
        """Longest source, in tokens."""
        return self.max_length
