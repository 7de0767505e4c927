"""The bidirectional stack of the language model, and what is put on top of it."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from fairseq_gmlm.models.attention import linear
from fairseq_gmlm.models.dropout import drop
from fairseq_gmlm.models.encoder import attention_mask
from fairseq_gmlm.models.layer_options import LayerOptions
from fairseq_gmlm.models.layers import ACTIVATIONS, EncoderLayer, build_norm
from fairseq_gmlm.models.positions import RelativeBias, build_positions
from fairseq_gmlm.models.relative_attention import RelativeEncoderLayer

_STD = 0.02  # BERT's


class TextEncoder(FairseqEncoder):
    """Embedding, positions, layers and final norm; every position sees every other."""

    def __init__(self, cfg: Any, dictionary: Any) -> None:
        super().__init__(dictionary)
        options = LayerOptions.of(cfg, "encoder")
        self.padding_idx, self.dropout = dictionary.pad(), cfg.dropout
        self.longest = cfg.max_positions
        self.embed_tokens = nn.Embedding(len(dictionary), options.width, self.padding_idx)
        nn.init.normal_(self.embed_tokens.weight, std=_STD)
        nn.init.zeros_(self.embed_tokens.weight[self.padding_idx])
        kind = str(cfg.positions)
        self.embed_positions = self.relative_bias = None
        if kind in ("learned", "sinusoidal"):
            learned = kind == "learned"
            self.embed_positions = build_positions(
                learned, cfg.max_positions, options.width, self.padding_idx
            )
            if learned:
                nn.init.normal_(self.embed_positions.weight, std=_STD)
        elif kind == "buckets":
            self.relative_bias = RelativeBias(
                cfg.relative_buckets, cfg.relative_max_distance, options.heads
            )
        self.layernorm_embedding = (
            None if cfg.no_layernorm_embedding else build_norm(options.norm_type, options.width)
        )
        layer = RelativeEncoderLayer if kind == "relative" else EncoderLayer
        self.layers = nn.ModuleList([layer(options) for _ in range(cfg.encoder_layers)])
        self.layer_norm = build_norm(options.norm_type, options.width) if options.pre_norm else None

    def forward(self, tokens: Tensor, padded: bool = True) -> Tensor:
        """Encode texts.

        Args:
            tokens: int64 (B, T), padded on either side.
            padded: False promises that no row has padding, which spares the mask.

        Returns:
            states (B, T, d).
        """
        real = tokens.ne(self.padding_idx)
        x = self.embed_tokens(tokens)
        if self.embed_positions is not None:
            x = x + self.embed_positions(real).to(x.dtype)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = drop(x, self.dropout, self.training)
        mask: Optional[Tensor] = None
        if self.relative_bias is not None:
            bias = self.relative_bias(tokens.size(1)).to(x.dtype)
            mask = attention_mask(real, bias) if padded else bias
        elif padded:
            mask = attention_mask(real)
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.layer_norm is None else self.layer_norm(x)

    def max_positions(self) -> int:
        """Longest text, in tokens with BOS and EOS."""
        return self.longest


class PredictionHead(nn.Module):
    """BERT's transform before the output matrix: dense, activation, norm; (..., d) -> (..., d).

    The output matrix is the embedding's; a bias per symbol is kept here.
    """

    def __init__(self, cfg: Any, size: int) -> None:
        super().__init__()
        width = cfg.encoder_embed_dim
        plain = cfg.no_prediction_head
        self.dense = None if plain else linear(width, width, True)
        self.activation = ACTIVATIONS[str(cfg.activation_fn)]
        self.layer_norm = None if plain else build_norm(str(cfg.norm_type), width)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, states: Tensor) -> Tensor:
        if self.dense is None:
            return states
        return self.layer_norm(self.activation(self.dense(states)))


class ClassificationHead(nn.Module):
    """RoBERTa's head for texts: states (B, T, d) -> logits (B, classes) from the first token."""

    def __init__(self, cfg: Any, classes: int, inner: int) -> None:
        super().__init__()
        self.dense = linear(cfg.encoder_embed_dim, inner, True)
        self.activation = ACTIVATIONS[str(cfg.pooler_activation_fn)]
        self.dropout = cfg.pooler_dropout
        self.out_proj = linear(inner, classes, True)

    def forward(self, states: Tensor) -> Tensor:
        x = F.dropout(states[:, 0], self.dropout, self.training)
        x = F.dropout(self.activation(self.dense(x)), self.dropout, self.training)
        return self.out_proj(x)
