"""Dictionaries, tasks, models and batches made in memory."""

from argparse import Namespace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.models.nat.cmlm_transformer import CMLMNATransformerModel, cmlm_base_architecture
from torch import Tensor

from fairseq_gmlm.models.config import GMLMTransformerConfig
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.models.initialization import IGNORED
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig, TranslationGMLMTask

SMALL: Dict[str, Any] = {
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_embed_dim": 16,
    "decoder_ffn_embed_dim": 24,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "max_source_positions": 20,
    "max_target_positions": 20,
    "dropout": 0.0,
}


def dictionary(words: int = 20) -> Dictionary:
    """fairseq's specials and ``w0``, ``w1``, ..."""
    found = Dictionary()
    for i in range(words):
        found.add_symbol(f"w{i}", n=words - i)
    return found


def task(words: int = 20, **options: Any) -> TranslationGMLMTask:
    """The translation task over two equal dictionaries, without any data."""
    values = {"data": "nowhere", "source_lang": "a", "target_lang": "b", **options}
    values.setdefault("max_source_positions", SMALL["max_source_positions"])
    values.setdefault("max_target_positions", SMALL["max_target_positions"])
    cfg = TranslationGMLMConfig(**values)
    return TranslationGMLMTask(cfg, dictionary(words), dictionary(words))


def model(
    owner: Optional[TranslationGMLMTask] = None, seed: int = 0, **options: Any
) -> GMLMTransformerModel:
    """A small model with random weights, in evaluation mode."""
    owner = owner or task()
    torch.manual_seed(seed)
    built = GMLMTransformerModel.build_model(GMLMTransformerConfig(**{**SMALL, **options}), owner)
    # Biases, norms and the length table start at constants, behind which mistakes could hide.
    with torch.no_grad():
        for name, value in built.named_parameters():
            if name.endswith("bias") or "norm" in name or name.startswith("length_predictor"):
                value.add_(torch.randn_like(value) * 0.1)
    return built.eval()


def pad(rows: Sequence[Sequence[int]], left: bool = False, width: Optional[int] = None) -> Tensor:
    """Rows of ids as one tensor."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return collate_tokens(tensors, 1, left_pad=left, pad_to_length=width)


def sources(lengths: Sequence[int], seed: int = 0, words: int = 20) -> List[List[int]]:
    """Random sources of so many words, each ending in EOS."""
    rng = torch.Generator().manual_seed(seed)
    return [[*torch.randint(4, 4 + words, (n,), generator=rng).tolist(), 2] for n in lengths]


def targets(lengths: Sequence[int], seed: int = 1, words: int = 20) -> List[List[int]]:
    """Random targets of so many words, between BOS and EOS."""
    return [[0, *row] for row in sources(lengths, seed, words)]


def sample(
    source: Sequence[Sequence[int]],
    target: Optional[Sequence[Sequence[int]]] = None,
    left: bool = True,
    ids: Optional[Sequence[int]] = None,
) -> Dict[str, Any]:
    """A batch as fairseq's collater makes it."""
    tokens = pad(source, left)
    batch: Dict[str, Any] = {
        "id": torch.tensor(list(range(len(source)) if ids is None else ids)),
        "nsentences": len(source),
        "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)},
    }
    if target is not None:
        batch["target"] = pad(target)
        batch["ntokens"] = sum(len(row) for row in target)
    return batch


def stock_cmlm(
    words: int = 20, seed: int = 0, longest: int = 9, **options: Any
) -> Tuple[CMLMNATransformerModel, Dictionary]:
    """fairseq's ``cmlm_transformer`` with random weights, and its dictionary.

    Lengths below 4 and above ``longest`` are ruled out through the length table, since random
    weights would otherwise ask for a length between 0 and 255.
    """
    owner = dictionary(words)
    args = Namespace(**{"share_all_embeddings": False, **SMALL, **options})
    cmlm_base_architecture(args)
    torch.manual_seed(seed)
    holder = Namespace(source_dictionary=owner, target_dictionary=owner)
    built = CMLMNATransformerModel.build_model(args, holder)
    with torch.no_grad():
        for name, value in built.named_parameters():
            # fairseq 0.12.2 keeps copies for torch's fast path: noise for them would give other
            # weights than the other versions have.
            if not name.endswith(IGNORED) and (name.endswith("bias") or "layer_norm" in name):
                value.add_(torch.randn_like(value) * 0.1)
        table = built.decoder.embed_length.weight
        # fairseq leaves the whole table at zero.
        allowed = torch.randn_like(table[4 : longest + 1])
        table[:] = allowed.mean(0)  # never above the best of those it is taken over
        table[4 : longest + 1] = allowed
    return built.eval(), owner
