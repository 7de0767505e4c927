"""A T5-style GMLM forward pass written out by hand, one sentence at a time (spec 3.1)."""

import math
from typing import Dict, List, Optional

import torch
from torch import Tensor

EPS = 1e-6


def bucket(relative: int, buckets: int = 32, longest: int = 128) -> int:
    """T5's bidirectional bucket of key position - query position, in plain Python."""
    half = buckets // 2
    start = half if relative > 0 else 0
    distance = abs(relative)
    exact = half // 2
    if distance < exact:
        return start + distance
    steps = math.log(distance / exact) / math.log(longest / exact) * (half - exact)
    return start + min(half - 1, exact + int(steps))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Rows of (T, d) divided by their root mean square."""
    rows = [row / math.sqrt(float((row * row).sum()) / len(row) + EPS) for row in x]
    return torch.stack(rows) * weight


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], heads: int) -> Tensor:
    """Unscaled multi-head attention of (T, h), (S, h), (S, h); bias (heads, T, S)."""
    size = q.size(1) // heads
    parts = []
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        scores = q[:, columns] @ k[:, columns].t()
        if bias is not None:
            scores = scores + bias[head]
        parts.append(scores.softmax(-1) @ v[:, columns])
    return torch.cat(parts, 1)


class T5Reference:
    """Runs on a state dict."""

    def __init__(self, state: Dict[str, Tensor], heads: int, layers: int, tied: bool) -> None:
        self.state, self.heads, self.layers, self.tied = state, heads, layers, tied

    def linear(self, x: Tensor, name: str) -> Tensor:
        assert f"{name}.bias" not in self.state
        return x @ self.state[f"{name}.weight"].t()

    def norm(self, x: Tensor, name: str) -> Tensor:
        assert f"{name}.bias" not in self.state
        return rms_norm(x, self.state[f"{name}.weight"])

    def bias(self, side: str, size: int) -> Tensor:
        """One table for all layers of a stack, (heads, T, T)."""
        table = self.state[f"{side}.relative_bias.weight"]
        rows = [[table[bucket(key - query)] for key in range(size)] for query in range(size)]
        return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)

    def attend(self, name: str, queries, keys, values, bias=None) -> Tensor:
        q, k = self.linear(queries, f"{name}.q_proj"), self.linear(keys, f"{name}.k_proj")
        v = self.linear(values, f"{name}.v_proj")
        return self.linear(attention(q, k, v, bias, self.heads), f"{name}.out_proj")

    def feed_forward(self, x: Tensor, name: str) -> Tensor:
        inner = self.norm(x, f"{name}.final_layer_norm")
        hidden = torch.nn.functional.gelu(self.linear(inner, f"{name}.fc1"))
        if f"{name}.gate.weight" in self.state:
            hidden = hidden * self.linear(inner, f"{name}.gate")
        return x + self.linear(hidden, f"{name}.fc2")

    def encode(self, source: List[int]) -> Tensor:
        x = self.state["encoder.embed_tokens.weight"][source]
        bias = self.bias("encoder", len(source))
        for layer in range(self.layers):
            name = f"encoder.layers.{layer}"
            inner = self.norm(x, f"{name}.self_attn_layer_norm")
            x = x + self.attend(f"{name}.self_attn", inner, inner, inner, bias)
            x = self.feed_forward(x, name)
        return self.norm(x, "encoder.layer_norm")

    def logits(self, source: List[int], target: List[int]) -> Tensor:
        """(T, V)."""
        memory = self.encode(source)
        x = self.state["decoder.embed_tokens.weight"][target]
        bias = self.bias("decoder", len(target))
        for layer in range(self.layers):
            name = f"decoder.layers.{layer}"
            inner = self.norm(x, f"{name}.self_attn_layer_norm")
            x = x + self.attend(f"{name}.self_attn", inner, inner, inner, bias)
            if "decoder.places.weight" in self.state:
                slots = self.state["decoder.places.weight"][: len(target)]
                slots = self.norm(slots, "decoder.places_norm")
                x = x + self.attend(f"{name}.positional_attn", slots, slots, x, bias)
            inner = self.norm(x, f"{name}.encoder_attn_layer_norm")
            x = x + self.attend(f"{name}.encoder_attn", inner, memory, memory)
            x = self.feed_forward(x, name)
        x = self.norm(x, "decoder.layer_norm")
        if self.tied:
            return x @ self.state["decoder.embed_tokens.weight"].t() / math.sqrt(x.size(1))
        return self.linear(x, "decoder.output_projection")
