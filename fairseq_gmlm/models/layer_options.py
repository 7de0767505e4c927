"""What the layers of a stack need to know."""

from typing import NamedTuple


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
