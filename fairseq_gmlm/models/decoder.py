"""The bidirectional target decoder."""

import math
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from fairseq.models import FairseqDecoder
from torch import Tensor, nn

from fairseq_gmlm.models.encoder import TransformerStack
from fairseq_gmlm.models.layers import DecoderLayer, build_norm
from fairseq_gmlm.models.memory import Memory


class Decoded(NamedTuple):
    """States of one pass, with attention maps where they were asked for.

    Attributes:
        states: (R, T, d).
        self_attention: (R, layers, heads, T, T) or None.
        cross_attention: (R, layers, heads, T, S) or None.
    """

    states: Tensor
    self_attention: Optional[Tensor] = None
    cross_attention: Optional[Tensor] = None


class GMLMDecoder(FairseqDecoder, TransformerStack):
    """Predicts every position of a target at once; never sees the index of the pass."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(dictionary)
        positional = cfg.positional_attention
        self.build_stack(
            cfg, "decoder", embed_tokens, lambda options: DecoderLayer(options, positional)
        )
        width = embed_tokens.embedding_dim
        self.places = nn.Embedding(cfg.max_target_positions, width) if positional else None
        self.places_norm = build_norm(str(cfg.norm_type), width) if positional else None
        tied = cfg.share_decoder_input_output_embed
        self.output_projection = nn.Linear(width, len(dictionary), bias=False)
        if tied:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=width**-0.5)
        # One module for all layers, in copies made for decoding.
        self.memory_projection: Optional[nn.Module] = None
        self.logit_scale = 1 / math.sqrt(width) if tied and cfg.scale_tied_logits else 1.0

    def project_memory(self, states: Tensor) -> List[Tuple[Tensor, Tensor]]:
        """Keys and values of the source for every layer."""
        if self.memory_projection is not None:
            return self.memory_projection(states)
        return [layer.encoder_attn.project(states) for layer in self.layers]

    def forward(
        self,
        tokens: Tensor,
        memory: Memory,
        padded: bool = True,
        need_weights: bool = False,
        columns: Optional[Tensor] = None,
    ) -> Decoded:
        """One pass.

        Args:
            tokens: int64 (R, T) with R = K * B: rows b*K .. b*K+K-1 belong to source b.
            memory: the encoded sources.
            padded: False promises that no row has padding, which spares the mask.
            need_weights: also return attention maps (slower).
            columns: int64 (R, n), the positions wanted (default: all); for copies made for
                decoding, whose last layer then computes no other.

        Returns:
            states scaled so that ``output_projection`` gives logits.
        """
        real = tokens.ne(self.padding_idx)
        x = self.embed(tokens, real)
        mask = self.self_mask(real, padded, x.dtype)
        places = None
        if self.places is not None:
            place = (real.long().cumsum(1) - 1).clamp_(min=0)
            places = self.places_norm(self.places(place)).to(x.dtype)
        maps: List[Tuple[Tensor, Tensor]] = []
        narrow = None if columns is None else self.layers[-1]
        for layer, cross in zip(self.layers, memory.cross):
            last = {"columns": columns} if layer is narrow else {}
            x, *weights = layer(x, mask, cross, memory.mask, places, need_weights, **last)
            if need_weights:
                maps.append(tuple(weights))
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if self.logit_scale != 1.0:
            x = x * self.logit_scale
        if not need_weights:
            return Decoded(x)
        return Decoded(x, *(torch.stack(side, 1) for side in zip(*maps)))

    def output_layer(self, states: Tensor) -> Tensor:
        """Logits (..., V)."""
        return self.output_projection(states)

    def max_positions(self) -> int:
        """Longest target, in tokens with BOS and EOS."""
        return self.max_length
