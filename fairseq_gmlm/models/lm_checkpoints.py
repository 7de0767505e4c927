"""Making a checkpoint of the language model fit the task at hand."""

import logging
from types import SimpleNamespace
from typing import Any, Dict

from torch import Tensor

from fairseq_gmlm.vocabulary import MASK, RANGE_MASK, fingerprint

logger = logging.getLogger(__name__)

_EMBEDDING = "encoder.embed_tokens.weight"
_POSITIONS = "encoder.embed_positions.weight"
_BIAS = "lm_head.bias"
_KEY = "dictionary_key"
_ADDED_BY_FAIRSEQ = "<mask>"  # sentence_prediction appends it


def dictionary_key(dictionary: Any) -> int:
    """A hash of the words of a dictionary, without the mask symbols that tasks append."""
    prefix = RANGE_MASK.format("")[:-1]
    symbols = [
        s
        for s in dictionary.symbols
        if s not in (MASK, _ADDED_BY_FAIRSEQ) and not s.startswith(prefix)
    ]
    return fingerprint(SimpleNamespace(symbols=symbols))


def fit_state(model: Any, state: Dict[str, Tensor], prefix: str) -> None:
    """Change ``state`` in place so that ``model`` can load it.

    Raises:
        ValueError: another dictionary.
    """
    key = state.get(prefix + _KEY)
    own = model.dictionary_key
    if key is not None and int(key) != int(own):
        raise ValueError(
            "the checkpoint's dictionary has other symbols than the data's; give the data-bin that "
            "the model was trained on, or one made with its dict.txt "
            "(fairseq-preprocess --srcdict)"
        )
    state.setdefault(prefix + _KEY, own.clone())
    current = model.state_dict()
    for name in (_EMBEDDING, _BIAS, _POSITIONS):
        _fit_rows(state, prefix + name, current.get(name))
    _fit_heads(model, state, prefix)


def _fit_rows(state: Dict[str, Tensor], name: str, own: Tensor) -> None:
    """Rows that only one side has come last: mask symbols, positions past the longest text."""
    given = state.get(name)
    if given is None or own is None or given.size(0) == own.size(0):
        return
    rows = min(given.size(0), own.size(0))
    new = own.detach().clone()
    new[:rows] = given[:rows]
    state[name] = new
    if name.endswith(_POSITIONS):
        logger.warning(
            f"{name}: {given.size(0)} rows in the checkpoint, {own.size(0)} here; "
            + ("the rest stays untrained" if own.size(0) > rows else "the rest is left out")
        )


def _fit_heads(model: Any, state: Dict[str, Tensor], prefix: str) -> None:
    """Classification heads: the model's own stay as they are unless the checkpoint has them too."""
    start = prefix + "classification_heads."
    names = {key[len(start) :].split(".")[0] for key in state if key.startswith(start)}
    for head in sorted(names):
        classes = state[f"{start}{head}.out_proj.weight"].size(0)
        inner = state[f"{start}{head}.dense.weight"].size(0)
        if head not in model.classification_heads and model.cfg.load_checkpoint_heads:
            model.register_classification_head(head, classes, inner)
        here = dict(model.classification_heads.items()).get(head)
        size = None if here is None else (here.out_proj.out_features, here.dense.out_features)
        if size != (classes, inner):
            reason = "this model has none of that name" if here is None else "its size differs"
            logger.warning(f"classification head {head} of the checkpoint is left out: {reason}")
            for key in [k for k in state if k.startswith(f"{start}{head}.")]:
                del state[key]
    for key, value in model.classification_heads.state_dict().items():
        state.setdefault(start + key, value)
