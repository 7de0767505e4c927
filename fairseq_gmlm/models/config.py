"""Options of the models, and the named architectures as tables of what differs."""

from dataclasses import dataclass, field
from typing import Any, Dict

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

ACTIVATIONS = ChoiceEnum(["relu", "gelu", "silu", "tanh"])
NORMS = ChoiceEnum(["layer", "rms"])
LENGTH_PREDICTORS = ChoiceEnum(["relative", "pooled", "token", "affine", "fertility", "oracle"])


@dataclass
class GMLMTransformerConfig(FairseqDataclass):
    """Encoder-decoder with a bidirectional decoder. Names follow fairseq's transformer."""

    encoder_embed_dim: int = field(default=512, metadata={"help": "width of the encoder"})
    encoder_ffn_embed_dim: int = field(
        default=2048, metadata={"help": "inner width of the encoder's feed-forward layers"}
    )
    encoder_layers: int = field(default=6, metadata={"help": "number of encoder layers"})
    encoder_attention_heads: int = field(default=8, metadata={"help": "heads in the encoder"})
    encoder_normalize_before: bool = field(
        default=False, metadata={"help": "normalise before each encoder block (pre-norm)"}
    )
    encoder_learned_pos: bool = field(
        default=False, metadata={"help": "learned, not sinusoidal, positions in the encoder"}
    )
    decoder_embed_dim: int = field(
        default=512, metadata={"help": "width of the decoder; must equal the encoder's"}
    )
    decoder_ffn_embed_dim: int = field(
        default=2048, metadata={"help": "inner width of the decoder's feed-forward layers"}
    )
    decoder_layers: int = field(default=6, metadata={"help": "number of decoder layers"})
    decoder_attention_heads: int = field(default=8, metadata={"help": "heads in the decoder"})
    decoder_normalize_before: bool = field(
        default=False, metadata={"help": "normalise before each decoder block (pre-norm)"}
    )
    decoder_learned_pos: bool = field(
        default=False, metadata={"help": "learned, not sinusoidal, positions in the decoder"}
    )
    head_dim: int = field(
        default=0, metadata={"help": "width of an attention head; 0: model width / heads"}
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout of block outputs"})
    attention_dropout: float = field(default=0.0, metadata={"help": "dropout of attention weights"})
    activation_dropout: float = field(
        default=0.0, metadata={"help": "dropout after the activation of feed-forward layers"}
    )
    activation_fn: ACTIVATIONS = field(
        default="relu", metadata={"help": "activation of feed-forward layers"}
    )
    gated_ffn: bool = field(
        default=False, metadata={"help": "gated feed-forward layers (T5 1.1's GEGLU family)"}
    )
    norm_type: NORMS = field(
        default="layer", metadata={"help": "layer: LayerNorm; rms: root mean square, no bias (T5)"}
    )
    no_bias: bool = field(default=False, metadata={"help": "no biases in linear layers (T5)"})
    relative_positions: bool = field(
        default=False,
        metadata={"help": "T5's relative position buckets, one table a stack, no absolute ones"},
    )
    relative_buckets: int = field(
        default=32, metadata={"help": "number of relative position buckets"}
    )
    relative_max_distance: int = field(
        default=128, metadata={"help": "distance in tokens from which all share the last bucket"}
    )
    no_scale_attention: bool = field(
        default=False, metadata={"help": "no division of attention scores by sqrt(head width) (T5)"}
    )
    positional_attention: bool = field(
        default=False,
        metadata={
            "help": "decoder sub-layer between self- and cross-attention whose queries and keys "
            "are learned absolute positions (PaDIR, after NAT)"
        },
    )
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "tie the decoder's input and output matrices"}
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={"help": "one matrix for source, target and output (needs a joined dictionary)"},
    )
    no_scale_embedding: bool = field(
        default=False, metadata={"help": "do not multiply embeddings by sqrt(width)"}
    )
    scale_tied_logits: bool = field(
        default=False,
        metadata={"help": "divide logits of a tied output matrix by sqrt(width) (T5)"},
    )
    layernorm_embedding: bool = field(
        default=False, metadata={"help": "normalise embeddings before dropout"}
    )
    max_source_positions: int = field(default=1024, metadata={"help": "longest source, in tokens"})
    max_target_positions: int = field(
        default=1024, metadata={"help": "longest target, in tokens with BOS and EOS"}
    )
    length_predictor: LENGTH_PREDICTORS = field(
        default="relative",
        metadata={
            "help": "relative: pooled, plus a learned bias for each difference to the source's "
            "length; pooled: classes from the mean encoder state (NAT); token: from the state of "
            "a length token (PaDIR); affine: a * source length + b; fertility: sum of per-token "
            "fertilities; oracle: the reference's length (needs references)"
        },
    )
    max_fertility: int = field(
        default=2, metadata={"help": "largest change per source token of the fertility predictor"}
    )
    length_detach: bool = field(
        default=False, metadata={"help": "no gradient from the length head into the encoder"}
    )
    learned_rejecter: bool = field(
        default=False,
        metadata={
            "help": "a binary head on decoder states that learns which predictions are right"
        },
    )
    freeze_encoder: bool = field(
        default=False, metadata={"help": "no gradient through the encoder's outputs"}
    )
    freeze_decoder: bool = field(
        default=False,
        metadata={"help": "no gradient through the decoder's outputs, nor from it to the encoder"},
    )
    freeze_length: bool = field(
        default=False, metadata={"help": "no gradient through the length head's outputs"}
    )
    freeze_rejecter: bool = field(
        default=False, metadata={"help": "no gradient through the learned rejecter's outputs"}
    )
    stock_cmlm: bool = field(
        default=False,
        metadata={
            "help": "behave as fairseq's cmlm_transformer does: <unk> is the mask, every symbol "
            "may be predicted, sources begin with BOS (set by fairseq-gmlm import-cmlm)"
        },
    )


def _both(**values: Any) -> Dict[str, Any]:
    """The same value for encoder and decoder."""
    return {f"{side}_{k}": v for k, v in values.items() for side in ("encoder", "decoder")}


_T5 = {
    **_both(normalize_before=True),
    "norm_type": "rms",
    "no_bias": True,
    "relative_positions": True,
    "no_scale_attention": True,
    "no_scale_embedding": True,
    "scale_tied_logits": True,
    "head_dim": 64,
}

# What each architecture changes in the defaults above.
ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "gmlm_transformer_tiny": _both(embed_dim=64, ffn_embed_dim=128, layers=2, attention_heads=4),
    "gmlm_transformer_iwslt_de_en": {
        **_both(ffn_embed_dim=1024, attention_heads=4),
        "dropout": 0.3,
    },
    "gmlm_transformer_wmt_en_de": {},
    "gmlm_transformer_wmt_en_de_big": {
        **_both(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16),
        "dropout": 0.3,
    },
    # Refinement repeats the decoder alone, so depth is cheaper in the encoder.
    "gmlm_transformer_deep_shallow": {"encoder_layers": 12, "decoder_layers": 1},
    "gmlm_transformer_deep_shallow_iwslt_de_en": {
        **_both(ffn_embed_dim=1024, attention_heads=4),
        "encoder_layers": 12,
        "decoder_layers": 1,
        "dropout": 0.3,
    },
    "gmlm_transformer_t5_small": {
        **_T5,
        **_both(embed_dim=512, ffn_embed_dim=1024, layers=8, attention_heads=6),
        "activation_fn": "gelu",
        "gated_ffn": True,
    },
    "gmlm_transformer_t5_base": {
        **_T5,
        **_both(embed_dim=768, ffn_embed_dim=2048, layers=12, attention_heads=12),
        "activation_fn": "gelu",
        "gated_ffn": True,
    },
}
