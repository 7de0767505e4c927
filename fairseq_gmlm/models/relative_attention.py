"""Self-attention with relative positions on keys and values (u-PMLM-R, spec 7.2)."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.losses import at_least_float32
from fairseq_gmlm.models.attention import Attention
from fairseq_gmlm.models.dropout import drop
from fairseq_gmlm.models.layer_options import LayerOptions
from fairseq_gmlm.models.layers import EncoderLayer
from fairseq_gmlm.models.positions import ClippedDistances


class RelativeAttention(Attention):
    """score(i, j) = scale * q_i . (k_j + a_ij); output_i = sum_j p_ij (v_j + a_ij).

    ``a_ij`` is the row of a fixed table for the clipped distance j - i, the same in all heads.
    """

    def __init__(self, options: LayerOptions, clip: int = 127) -> None:
        super().__init__(options)
        self.distances = ClippedDistances(options.head_dim, clip)

    def forward(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Optional[Tensor] = None,
        need_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attend within a text; shapes as in :class:`Attention` with R = B and S = T."""
        batch, length, _ = x.shape
        q = self.split(self.q_proj(x)) * self.scale
        table = self.distances(length).to(q.dtype)
        scores = torch.matmul(q, keys.transpose(-1, -2))
        # As a product per query position: (T, B * heads, hd) x (T, hd, T).
        by_place = q.permute(2, 0, 1, 3).reshape(length, -1, self.head_dim)
        relative = torch.bmm(by_place, table.transpose(1, 2))
        scores = scores + relative.view(length, batch, self.heads, length).permute(1, 2, 0, 3)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = at_least_float32(scores).softmax(-1).to(q.dtype)
        dropped = drop(weights, self.dropout, self.training)
        out = torch.matmul(dropped, values)
        by_place = dropped.permute(2, 0, 1, 3).reshape(length, -1, length)
        relative = torch.bmm(by_place, table)
        out = out + relative.view(length, batch, self.heads, -1).permute(1, 2, 0, 3)
        out = self.out_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return out, weights if need_weights else None


class RelativeEncoderLayer(EncoderLayer):
    """An encoder layer whose self-attention is :class:`RelativeAttention`."""

    def __init__(self, options: LayerOptions) -> None:
        super().__init__(options)
        self.self_attn = RelativeAttention(options)
