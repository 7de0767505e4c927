"""Tiny models and tasks of fixed seed for the tests of PaDIR's parts."""

from argparse import Namespace
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.models.config import GMLMTransformerConfig
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig, TranslationGMLMTask

WORDS = 12  # ordinary words, ids 4 .. 15


def dictionary(words: int = WORDS, prefix: str = "w") -> Dictionary:
    """Specials, then ``words`` words."""
    made = Dictionary()
    for number in range(words):
        made.add_symbol(f"{prefix}{number}", n=100 - number)
    return made


def task(words: int = WORDS, **options: Any) -> TranslationGMLMTask:
    """A task with one dictionary for both sides."""
    shared = dictionary(words)
    return TranslationGMLMTask(TranslationGMLMConfig(**options), shared, shared)


def config(**options: Any) -> GMLMTransformerConfig:
    """Width 16, two layers, two heads."""
    values: Dict[str, Any] = {
        "encoder_embed_dim": 16,
        "decoder_embed_dim": 16,
        "encoder_ffn_embed_dim": 32,
        "decoder_ffn_embed_dim": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "max_source_positions": 32,
        "max_target_positions": 16,
        "dropout": 0.0,
        "length_predictor": "pooled",
    }
    values.update(options)
    return GMLMTransformerConfig(**values)


def model(own_task: Optional[Any] = None, seed: int = 0, **options: Any) -> GMLMTransformerModel:
    """A random model in evaluation mode, sharp enough that no two logits nearly tie."""
    own_task = own_task or task()
    torch.manual_seed(seed)
    made = GMLMTransformerModel.build_model(config(**options), own_task).eval()
    with torch.no_grad():
        table = getattr(made.length_predictor, "weight", None)
        if table is not None:  # zero at first; here lengths shall differ between sources
            torch.nn.init.normal_(table, std=0.25)
        for name, parameter in made.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.mul_(2.0)
    return made


def sources(
    rows: Sequence[Sequence[int]], pad: int = 1, eos: int = 2, left: bool = False
) -> Tensor:
    """int64 (B, S): the rows with EOS, padded."""
    longest = max(len(row) for row in rows) + 1
    made = []
    for row in rows:
        real = [*row, eos]
        padding = [pad] * (longest - len(real))
        made.append([*padding, *real] if left else [*real, *padding])
    return torch.tensor(made)


def sample(rows: Sequence[Sequence[int]], target: Optional[Tensor] = None) -> Dict[str, Any]:
    """What fairseq hands to a generator."""
    tokens = sources(rows)
    lengths = tokens.ne(1).sum(1)
    return {"net_input": {"src_tokens": tokens, "src_lengths": lengths}, "target": target}


def generator(models: List[Any], **options: Any) -> GMLMGenerator:
    """As ``task.build_generator`` makes it; fairseq's options and ours by their Python names."""
    generation = Namespace(**options)
    return GMLMGenerator(models, DecodingOptions.of(TranslationGMLMConfig(), generation))
