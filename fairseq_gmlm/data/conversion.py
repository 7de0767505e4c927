"""Conversion of a loaded fairseq transformer to CTranslate2.

CTranslate2's own converter reads the checkpoint itself, for which it needs the training data's
folder and an option to load it unsafely; this one starts from the model that is loaded already.
"""

from pathlib import Path
from typing import Any

import torch

from fairseq_gmlm.data.teacher import Teacher
from fairseq_gmlm.errors import UserError


def import_ctranslate2() -> Any:
    """The ctranslate2 module.

    Raises:
        UserError: when it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            "--engine ctranslate2 needs the extra: pip install 'fairseq-gmlm[fast]', "
            "or use --engine fairseq"
        ) from error
    return ctranslate2


def _unsupported(cfg: Any, model: Any) -> str:
    """Why CTranslate2 cannot run this transformer, or an empty string."""
    reasons = {
        "pre-norm on one side only": cfg.encoder.normalize_before != cfg.decoder.normalize_before,
        "different numbers of heads": cfg.encoder.attention_heads != cfg.decoder.attention_heads,
        "no positional embeddings": cfg.no_token_positional_embeddings,
        "adaptive softmax": model.decoder.adaptive_softmax is not None,
        "cross-self-attention": cfg.cross_self_attention,
        "no cross-attention": cfg.no_cross_attention,
        "a final norm left out": cfg.no_decoder_final_norm and cfg.decoder.normalize_before,
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


@torch.no_grad()
def convert_to_ctranslate2(teacher: Teacher, folder: Path) -> None:
    """Write the teacher as a CTranslate2 model, in 32-bit floats.

    Raises:
        UserError: for a transformer with parts that CTranslate2 does not have.
    """
    import_ctranslate2()
    from ctranslate2.converters import fairseq as fairseq_converter
    from ctranslate2.converters.converter import Converter
    from ctranslate2.specs import common_spec, transformer_spec

    model, cfg = teacher.model, teacher.model.cfg
    activations = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "gelu_accurate": common_spec.Activation.GELUTanh,
        "gelu_fast": common_spec.Activation.GELUTanh,
        "swish": common_spec.Activation.SWISH,
    }
    reason = _unsupported(cfg, model)
    if cfg.activation_fn not in activations:
        reason = f"activation {cfg.activation_fn}"
    if reason:
        raise UserError(f"{teacher.path}: CTranslate2 has no {reason}; use --engine fairseq")

    class LoadedModelConverter(Converter):
        """Describes the loaded model; the base class writes it."""

        def _load(self) -> Any:
            spec = transformer_spec.TransformerSpec.from_config(
                (len(model.encoder.layers), len(model.decoder.layers)),
                cfg.encoder.attention_heads,
                pre_norm=cfg.encoder.normalize_before,
                activation=activations[cfg.activation_fn],
                layernorm_embedding=cfg.layernorm_embedding,
            )
            fairseq_converter.set_transformer_encoder(spec.encoder, model.encoder)
            fairseq_converter.set_transformer_decoder(spec.decoder, model.decoder)
            sides = teacher.source_dictionary, teacher.target_dictionary
            # CTranslate2 calls the padding <blank>.
            source, target = (
                ["<blank>" if i == side.pad() else s for i, s in enumerate(side.symbols)]
                for side in sides
            )
            spec.register_source_vocabulary(source)
            spec.register_target_vocabulary(target)
            spec.config.decoder_start_token = spec.config.eos_token
            spec.config.add_source_eos = True
            return spec

    LoadedModelConverter().convert(str(folder))
