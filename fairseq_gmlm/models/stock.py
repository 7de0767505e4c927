"""fairseq's own CMLM checkpoints as models of this plugin."""

from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict

import torch
from torch import Tensor

from fairseq_gmlm.criterions.gmlm_loss import GMLMLossConfig
from fairseq_gmlm.data.checkpoints import field, section
from fairseq_gmlm.data.databin import find_languages, load_dictionary
from fairseq_gmlm.errors import UserError
from fairseq_gmlm.models.config import GMLMTransformerConfig
from fairseq_gmlm.models.initialization import EMBEDDINGS, IGNORED
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig
from fairseq_gmlm.vocabulary import MASK, add_symbols, fingerprint

# What stock models can do and this one cannot.
_UNSUPPORTED = (
    "src_embedding_copy",
    "pred_length_offset",
    "no_token_positional_embeddings",
    "adaptive_input",
    "decoder_layers_to_keep",
    "encoder_layers_to_keep",
)


def _plain(config: Any, given: Any, **more: Any) -> Dict[str, Any]:
    """Fields of a dataclass, from ``given`` where it has them, as plain data."""
    values = {}
    for item in fields(config):
        value = field(given, item.name, item.default)
        if not item.name.startswith("_") and not str(value).startswith("${"):
            values[item.name] = getattr(value, "value", value)
    return {**values, **more}


def imported_checkpoint(state: Dict[str, Any], data: Path, path: str) -> Dict[str, Any]:
    """A ``gmlm_transformer`` checkpoint with the weights of a ``cmlm_transformer``.

    Args:
        state: the stock checkpoint.
        data: data-bin of its training, for the dictionaries.
        path: its name, for messages.

    Raises:
        UserError: another architecture, an option that this model does not know, or dictionaries
            of another size.
    """
    body, task = section(state, "model"), section(state, "task")
    arch = str(field(body, "arch", field(body, "_name", "?")))
    if not arch.startswith("cmlm_transformer"):
        raise UserError(f"--path {path}: expected a cmlm_transformer, found {arch}")
    for name in _UNSUPPORTED:
        if field(body, name):
            raise UserError(f"--path {path}: --{name.replace('_', '-')} cannot be imported")
    languages = field(task, "source_lang"), field(task, "target_lang")
    if None in languages:
        languages = find_languages(data)
    dictionaries = [load_dictionary(data, str(language)) for language in languages]
    for dictionary in dictionaries:
        add_symbols(dictionary)
    weights: Dict[str, Tensor] = {}
    for name, value in state["model"].items():
        if name.endswith(IGNORED):
            continue
        if name in EMBEDDINGS:
            dictionary = dictionaries[0 if name.startswith("encoder") else 1]
            value = _with_mask_row(value, dictionary, name, data)
        weights[name.replace("decoder.embed_length.", "length_predictor.")] = value
    keys = [fingerprint(dictionary) for dictionary in dictionaries]
    weights["dictionary_version"] = torch.tensor(keys)
    cfg = dict(state.get("cfg") or {})
    cfg["model"] = _plain(
        GMLMTransformerConfig,
        body,
        _name="gmlm_transformer",
        stock_cmlm=True,
        length_predictor="pooled",
    )
    cfg["task"] = _plain(TranslationGMLMConfig, task, _name="translation_gmlm", source_bos=True)
    cfg["criterion"] = _plain(GMLMLossConfig, Namespace(), _name="gmlm_loss")
    history = state.get("optimizer_history") or [{"num_updates": 0}]
    return {
        "args": None,
        "cfg": cfg,
        "model": weights,
        "optimizer_history": history[-1:],
        "extra_state": {"epoch": 0},
        "last_optimizer_state": None,
    }


def _with_mask_row(value: Tensor, dictionary: Any, name: str, data: Path) -> Tensor:
    """Embeddings with a row for the mask symbol that the task adds; nobody reads or predicts it."""
    plain = dictionary.index(MASK)
    if value.size(0) != plain:
        raise UserError(
            f"--data {data}: its dictionary has {plain} symbols, the checkpoint's {name} "
            f"{value.size(0)}; give the data-bin that the model was trained on"
        )
    return torch.cat([value, value.new_zeros(len(dictionary) - plain, value.size(1))])
