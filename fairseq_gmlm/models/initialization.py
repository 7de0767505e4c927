"""Starting a model from another one's weights."""

import logging
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List, Tuple

from torch import Tensor, nn

from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.vocabulary import MASK, fingerprint

logger = logging.getLogger(__name__)

PARTS = ("encoder", "decoder", "embeddings", "length", "rejecter")
EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
               "decoder.output_projection.weight")  # fmt: skip
# What fairseq's own models keep under other names, or do not need.
_RENAMED = {"decoder.embed_length.weight": "length_predictor.weight"}
# The last ones are copies, by default of zeros, that fairseq 0.12.2 keeps in each encoder layer for
# torch's fast path.
IGNORED = ("version", "_float_tensor", "embed_positions.weights",
           *(f".{layer}_{kind}" for layer in ("in_proj", "out_proj", "fc1", "fc2")
             for kind in ("weight", "bias")))  # fmt: skip


def part_of(name: str) -> str:
    """Which of :data:`PARTS` a parameter belongs to."""
    if name in EMBEDDINGS:
        return "embeddings"
    return "length" if name.startswith("length_predictor") else name.split(".")[0]


def _rows(name: str, given: Tensor, own: Tensor, plain: int, checked: bool) -> Tensor:
    """Embedding rows: those of the plain dictionary are taken, added symbols start at their mean.

    With fewer masks per position (only where the symbols were ``checked``) those are taken too.
    """
    most = own.size(0)
    fits = plain <= given.size(0) <= most if checked else given.size(0) in (plain, most)
    if not fits or given.size(1) != own.size(1):
        raise ValueError(
            f"{name} is {tuple(given.shape)} in the checkpoint and {tuple(own.shape)} here; the "
            "teacher must have been trained on a data-bin with these dictionaries and this width"
        )
    new = own.clone()
    new[: given.size(0)] = given
    if given.size(0) < own.size(0):
        # The mean of all words says nothing about any of them: a fair start for a mask.
        new[given.size(0) :] = given[4:].mean(0)
    return new


def check_symbols(model: nn.Module, given: Dict[str, Tensor], path: str) -> None:
    """Refuse embeddings of other words, where the checkpoint says which it has.

    Only this plugin's checkpoints do; of others no more than the sizes can be checked.

    Raises:
        ValueError: the dictionaries differ.
    """
    keys = given.get("dictionary_version")
    if keys is None:
        return
    for side, name, key in zip(("encoder", "decoder"), ("source", "target"), keys.tolist()):
        rows = given[f"{side}.embed_tokens.weight"].size(0)
        # Masks per position come last: a checkpoint with fewer of them shares the beginning.
        symbols = getattr(model, side).dictionary.symbols[:rows]
        if fingerprint(SimpleNamespace(symbols=symbols)) != key:
            raise ValueError(
                f"{path} was trained with another {name} dictionary ({rows} symbols); leave "
                "embeddings out of --init-parts, or prepare the data with its dict files"
            )


def initialize_from(model: nn.Module, path: str, parts: str) -> Tuple[List[str], List[str]]:
    """Copy weights of a checkpoint into ``model``.

    Args:
        model: a ``gmlm_transformer``.
        path: checkpoint of a ``transformer``, ``cmlm_transformer`` or ``gmlm_transformer``.
        parts: comma separated, any of :data:`PARTS`.

    Returns:
        names taken and names of this model that were not.

    Raises:
        ValueError: unknown part, unreadable file, or shapes or dictionaries that do not fit.
    """
    wanted = {part.strip() for part in parts.split(",") if part.strip()}
    if not wanted or wanted - set(PARTS):
        raise ValueError(f"--init-parts takes any of {', '.join(PARTS)}, not {parts!r}")
    given = load_checkpoint(Path(path))["model"]
    if "embeddings" in wanted:
        check_symbols(model, given, path)
    checked = "dictionary_version" in given
    own = model.state_dict()
    plain = {side: getattr(model, side).dictionary.index(MASK) for side in ("encoder", "decoder")}
    taken: Dict[str, Tensor] = {}
    ignored: List[str] = []
    for name, value in given.items():
        target = _RENAMED.get(name, name)
        if target not in own or target.endswith(IGNORED) or part_of(target) not in wanted:
            if not target.endswith(IGNORED):
                ignored.append(name)
            continue
        if part_of(target) == "embeddings":
            value = _rows(name, value, own[target], plain[target.split(".")[0]], checked)
        elif value.shape != own[target].shape:
            if part_of(target) == "length":
                ignored.append(name)
                continue
            raise ValueError(
                f"{path}: {name} is {tuple(value.shape)}, this model's is "
                f"{tuple(own[target].shape)}; give --encoder-layers, --encoder-embed-dim, "
                "--encoder-ffn-embed-dim and their decoder twins as the checkpoint was trained with"
            )
        taken[target] = value
    model.load_state_dict({**own, **taken})
    missing = [n for n in own if n not in taken and part_of(n) in wanted]
    missing = [n for n in missing if not n.endswith(IGNORED)]
    if not taken:
        raise ValueError(f"{path} has nothing that this model could take (--init-parts {parts})")
    counts = Counter(part_of(name) for name in taken)
    shown = ", ".join(f"{part} {count}" for part, count in sorted(counts.items()))
    logger.info(f"took {len(taken)} tensors from {path}: {shown}")
    if missing:
        logger.info(f"start at random, not in {path}: {', '.join(missing)}")
    if ignored:
        logger.info(f"left in {path}: {', '.join(ignored)}")
    return sorted(taken), missing
