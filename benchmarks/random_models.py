"""Models with random weights: fairseq's own, and this plugin's with the weights of fairseq's CMLM."""

import argparse
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models.nat.cmlm_transformer import CMLMNATransformerModel, cmlm_base_architecture
from fairseq.models.transformer import TransformerModel, base_architecture

from fairseq_gmlm.data.checkpoints import save_checkpoint
from fairseq_gmlm.data.conversion import convert_to_ctranslate2
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.data.teacher import Teacher
from fairseq_gmlm.models.config import GMLMTransformerConfig
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.models.stock import imported_checkpoint
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig, TranslationGMLMTask

LONGEST = 512
SOURCE, TARGET = "a", "b"


@dataclass(frozen=True)
class Size:
    """Shape of a model.

    Embeddings and output matrix are three tables: with one random table every position predicts what
    it has read, and all systems would agree on nothing but masks.

    Attributes:
        encoder, decoder: layers.
        width, ffn, heads: of every layer.
        vocabulary: words, fairseq's four specials apart.
    """

    encoder: int = 6
    decoder: int = 6
    width: int = 512
    ffn: int = 2048
    heads: int = 8
    vocabulary: int = 10000

    def options(self) -> dict:
        """As fairseq's models call them."""
        found = {
            "share_all_embeddings": False,
            "share_decoder_input_output_embed": False,
            "dropout": 0.1,
        }
        for side, layers in (("encoder", self.encoder), ("decoder", self.decoder)):
            found[f"{side}_layers"], found[f"{side}_embed_dim"] = layers, self.width
            found[f"{side}_ffn_embed_dim"] = self.ffn
            found[f"{side}_attention_heads"] = self.heads
        return {**found, "max_source_positions": LONGEST, "max_target_positions": LONGEST}


def dictionary(words: int) -> Dictionary:
    """fairseq's specials, and ``w0``, ``w1``, ..."""
    found = Dictionary()
    for i in range(words):
        found.add_symbol(f"w{i}", n=words - i)
    return found


def _finished(model: Any) -> Any:
    model.eval()
    model.prepare_for_inference_(Namespace(generation=Namespace()))
    return model


def _stock(kind: Any, architecture: Any, size: Size, seed: int) -> Any:
    owner = dictionary(size.vocabulary)
    args = Namespace(**size.options())
    architecture(args)
    torch.manual_seed(seed)
    built = kind.build_model(args, Namespace(source_dictionary=owner, target_dictionary=owner))
    built.args = args
    return built


def cmlm(size: Size, seed: int = 1) -> CMLMNATransformerModel:
    """fairseq's ``cmlm_transformer``."""
    return _finished(_stock(CMLMNATransformerModel, cmlm_base_architecture, size, seed))


def transformer(size: Size, seed: int = 1) -> TransformerModel:
    """fairseq's autoregressive ``transformer``."""
    return _finished(_stock(TransformerModel, base_architecture, size, seed))


def gmlm(size: Size, seed: int = 1) -> GMLMTransformerModel:
    """``gmlm_transformer`` of the same shape, with weights of its own."""
    words = dictionary(size.vocabulary), dictionary(size.vocabulary)
    task = TranslationGMLMTask(TranslationGMLMConfig(data=".", source_bos=True), *words)
    torch.manual_seed(seed)
    cfg = GMLMTransformerConfig(**size.options(), stock_cmlm=True, length_predictor="pooled")
    return _finished(GMLMTransformerModel.build_model(cfg, task))


def imported_gmlm(model: CMLMNATransformerModel, folder: Path) -> GMLMTransformerModel:
    """``gmlm_transformer`` with the weights of a stock model, by way of ``import-cmlm``'s code.

    Args:
        model: the stock model.
        folder: where dictionaries and the checkpoint are written.
    """
    words = model.decoder.dictionary
    for language in (SOURCE, TARGET):
        words.save(str(folder / f"dict.{language}.txt"))
    args = Namespace(
        **{**vars(model.args), "arch": "cmlm_transformer", "data": str(folder)},
        source_lang=SOURCE, target_lang=TARGET,
    )  # fmt: skip
    state = {"args": args, "cfg": None, "model": model.state_dict()}
    state["optimizer_history"] = [
        {"num_updates": 0, "criterion_name": "NATLoss", "best_loss": None}
    ]
    path = folder / "imported.pt"
    save_checkpoint(imported_checkpoint(state, folder, str(path)), path)
    overrides = {"data": str(folder), "source_lang": SOURCE, "target_lang": TARGET}
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides)
    path.unlink()
    return _finished(models[0])


def converted(model: TransformerModel, folder: Path) -> Path:
    """The autoregressive model for CTranslate2, in ``folder / "model"``."""
    words = model.decoder.dictionary
    teacher = Teacher(folder, model, argparse.Namespace(), Languages(SOURCE, TARGET), words, words)
    convert_to_ctranslate2(teacher, folder / "model")
    return folder / "model"


def sentences(count: int, words: int, vocabulary: int, seed: int = 1) -> List[List[int]]:
    """Random ids of ordinary words."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(4, 4 + vocabulary, (count, words), generator=rng).tolist()
