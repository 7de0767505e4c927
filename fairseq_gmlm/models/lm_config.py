"""Options of the masked language model, and its named architectures."""

from dataclasses import dataclass, field
from typing import Any, Dict

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_gmlm.models.config import ACTIVATIONS, NORMS

POSITIONS = ("learned", "relative", "buckets", "sinusoidal")


@dataclass
class GMLMLanguageModelConfig(FairseqDataclass):
    """A bidirectional encoder with a prediction head. Names follow fairseq's RoBERTa."""

    encoder_embed_dim: int = field(default=768, metadata={"help": "width of the model"})
    encoder_ffn_embed_dim: int = field(
        default=3072, metadata={"help": "inner width of the feed-forward layers"}
    )
    encoder_layers: int = field(default=12, metadata={"help": "number of layers"})
    encoder_attention_heads: int = field(default=12, metadata={"help": "attention heads"})
    encoder_normalize_before: bool = field(
        default=False, metadata={"help": "normalise before each block (pre-norm)"}
    )
    head_dim: int = field(
        default=0, metadata={"help": "width of an attention head; 0: model width / heads"}
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout of block outputs"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout of attention weights"})
    activation_dropout: float = field(
        default=0.0, metadata={"help": "dropout after the activation of feed-forward layers"}
    )
    pooler_dropout: float = field(
        default=0.0, metadata={"help": "dropout inside classification heads"}
    )
    activation_fn: ACTIVATIONS = field(
        default="gelu", metadata={"help": "activation of feed-forward layers and prediction head"}
    )
    pooler_activation_fn: ACTIVATIONS = field(
        default="tanh", metadata={"help": "activation of classification heads"}
    )
    gated_ffn: bool = field(default=False, metadata={"help": "gated feed-forward layers"})
    norm_type: NORMS = field(
        default="layer", metadata={"help": "layer: LayerNorm; rms: root mean square, no bias"}
    )
    no_bias: bool = field(default=False, metadata={"help": "no biases in the layers (T5)"})
    no_scale_attention: bool = field(
        default=False, metadata={"help": "no division of attention scores by sqrt(head width) (T5)"}
    )
    positions: ChoiceEnum(list(POSITIONS)) = field(
        default="learned",
        metadata={
            "help": "learned: absolute, trained (u-PMLM-A); relative: on keys and values, from a "
            "fixed sinusoid table clipped at distance 127 (u-PMLM-R); buckets: T5's relative "
            "biases; sinusoidal: absolute, fixed"
        },
    )
    relative_buckets: int = field(
        default=32, metadata={"help": "number of buckets with --positions buckets"}
    )
    relative_max_distance: int = field(
        default=128, metadata={"help": "distance in tokens from which all share the last bucket"}
    )
    max_positions: int = field(
        default=512, metadata={"help": "longest text, in tokens with BOS and EOS"}
    )
    no_layernorm_embedding: bool = field(
        default=False, metadata={"help": "do not normalise the sum of token and position embedding"}
    )
    no_prediction_head: bool = field(
        default=False,
        metadata={"help": "predict from the last states without BERT's dense, gelu and norm"},
    )
    load_checkpoint_heads: bool = field(
        default=False,
        metadata={"help": "register the classification heads that a checkpoint brings"},
    )


# What each architecture changes in the defaults above.
LM_ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "gmlm_lm_tiny": {
        "encoder_embed_dim": 128,
        "encoder_ffn_embed_dim": 512,
        "encoder_layers": 4,
        "encoder_attention_heads": 4,
        # Small models are trained for minutes: pre-norm stands the learning rates that need.
        "encoder_normalize_before": True,
        "attention_dropout": 0.0,
    },
    "gmlm_lm_base": {},
    "gmlm_lm_large": {
        "encoder_embed_dim": 1024,
        "encoder_ffn_embed_dim": 4096,
        "encoder_layers": 24,
        "encoder_attention_heads": 16,
    },
}
