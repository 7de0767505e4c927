"""Unpickling plain data only, for torch before 2.4, whose ``weights_only`` knows no list of types.

``torch.load(path, pickle_module=plain_pickle)`` reads what fairseq keeps in a checkpoint: tensors,
containers, an ``argparse.Namespace``, numpy scalars and arrays. Every other name is refused before
anything is imported. The module has the names that ``torch.load`` asks a pickle module for.
"""

import functools
import pickle
from typing import Any, Dict, Tuple

import torch

from fairseq_gmlm.compat import checkpoint_types

_CONTAINERS = (
    *(("builtins", name) for name in ("set", "frozenset", "bytearray", "complex", "slice")),
    ("collections", "OrderedDict"),
    ("_codecs", "encode"),  # how numpy's bytes are written in old protocols
)
_REBUILD = (
    *("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"),
    "_rebuild_parameter_with_state",
)


@functools.cache
def _allowed() -> Dict[Tuple[str, str], Any]:
    """(module, name) -> object, for every name that a file may refer to."""
    import builtins
    import collections
    from _codecs import encode

    homes = {"builtins": builtins, "collections": collections}
    found: Dict[Tuple[str, str], Any] = {
        (module, name): encode if module == "_codecs" else getattr(homes[module], name)
        for module, name in _CONTAINERS
    }
    for name in _REBUILD:
        if hasattr(torch._utils, name):
            found["torch._utils", name] = getattr(torch._utils, name)
    for name, value in vars(torch).items():
        if isinstance(value, torch.dtype) or name.endswith("Storage"):
            found["torch", name] = value
    for name in ("Size", "device"):
        found["torch", name] = getattr(torch, name)
    for name in ("TypedStorage", "UntypedStorage"):
        found["torch.storage", name] = getattr(torch.storage, name)
    found.update(checkpoint_types())
    # Files of Python 2 and of protocol 2 write builtins under its old name.
    found.update({("__builtin__", n): v for (m, n), v in found.items() if m == "builtins"})
    return found


class Unpickler(pickle.Unpickler):
    """Refuses every name that is not in the list.

    Raises:
        pickle.UnpicklingError: with the name.
    """

    def find_class(self, module: str, name: str) -> Any:
        """The object that a file refers to."""
        found = _allowed().get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"Unsupported global: GLOBAL {module}.{name}")
        return found


def load(file: Any, **arguments: Any) -> Any:
    """Read one object."""
    return Unpickler(file, **arguments).load()
