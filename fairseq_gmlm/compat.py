"""What differs between versions of fairseq and torch, and nothing else."""

import argparse
import functools
import importlib
import logging
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

try:
    from fairseq.logging import metrics  # a package of its own since 0.12
except ImportError:
    metrics = None  # the pure parts run without fairseq

logger = logging.getLogger(__name__)


def _numpy_functions() -> List[Any]:
    import numpy as np

    # numpy 1.26 has an empty ``_core`` as well: the version tells.
    core = "numpy._core" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core"
    multiarray = importlib.import_module(f"{core}.multiarray")
    return [multiarray.scalar, multiarray._reconstruct]


def _numpy_types() -> List[Any]:
    """Types that fairseq's meters leave in a checkpoint, under numpy 1 and 2."""
    import numpy as np

    # Each dtype is of a class of its own, which has a public name since numpy 1.25 only.
    kinds = ("float32", "float64", "int32", "int64", "bool")
    return [np.dtype, np.ndarray, *(type(np.dtype(kind)) for kind in kinds)]


# The module that holds numpy's functions has another name in the other major version.
_NUMPY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")


def checkpoint_types() -> Dict[Tuple[str, str], Any]:
    """(module, name) -> object for what fairseq's checkpoints hold besides tensors and containers."""
    found = {(kind.__module__, kind.__name__): kind for kind in _numpy_types()}
    found["argparse", "Namespace"] = argparse.Namespace
    for module in _NUMPY_MODULES:
        found.update({(module, function.__name__): function for function in _numpy_functions()})
    return found


def allow_checkpoint_types() -> None:
    """Let ``torch.load(weights_only=True)`` read fairseq's checkpoints.

    torch >= 2.6 refuses them because they hold an ``argparse.Namespace`` and numpy scalars and
    arrays (meters). All are plain data, so they are allow-listed; the check itself stays on, and a
    file with any other class in it is still refused. torch < 2.4 has no such list: see
    :func:`load_plain`.
    """
    add = getattr(torch.serialization, "add_safe_globals", None)
    if add is None:
        return
    add([argparse.Namespace, *_numpy_functions(), *_numpy_types()])
    if torch_version() >= (2, 6):  # pairs of object and name are understood from here on
        add([(f, f"{m}.{f.__name__}") for f in _numpy_functions() for m in _NUMPY_MODULES])


def load_plain(path: Any, mmap: bool = False) -> Any:
    """``torch.load`` to the CPU that runs no code out of the file, on every torch.

    Raises:
        pickle.UnpicklingError: the file holds more than plain data.
    """
    if hasattr(torch.serialization, "add_safe_globals"):
        allow_checkpoint_types()
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap or None)
    from fairseq_gmlm import plain_pickle

    return torch.load(path, map_location="cpu", pickle_module=plain_pickle, mmap=mmap or None)


def avoid_fused_encoder_layers() -> None:
    """Let encoder layers of the official fairseq 0.12.2 compute as they do in training.

    Once weights are loaded it calls a fused kernel of torch 1.12, whose signature has changed since:
    decoding with any of its post-norm transformers ends in "Mask Type should be defined".
    """
    try:
        from fairseq.modules.transformer_layer import TransformerEncoderLayerBase as Layer
    except ImportError:
        return
    build = Layer.__init__
    if "_load_from_state_dict" not in vars(Layer) or hasattr(build, "__wrapped__"):
        return

    @functools.wraps(build)
    def built(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.can_use_fastpath = False

    Layer.__init__ = built


def copy_checkpoints_whole() -> None:
    """Let fairseq's copies of a checkpoint appear under their name when they are whole.

    It saves a checkpoint under another name first, but copies it to ``checkpoint_last.pt`` and its
    kin in place: a crash meanwhile would leave half a file where the next run resumes from.
    """
    try:
        from fairseq.file_io import PathManager
    except ImportError:
        return
    copy = PathManager.copy
    if hasattr(copy, "__wrapped__"):
        return

    @functools.wraps(copy)
    def whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite)
        partial = f"{dst_path}.tmp"  # as fairseq calls what it has not saved to the end
        copied = copy(src_path, partial, overwrite=True)
        PathManager.rename(partial, dst_path)
        return copied

    PathManager.copy = staticmethod(whole)


def torch_version() -> Tuple[int, int]:
    """(major, minor)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def option(cfg: Any, name: str, default: Any) -> Any:
    """``cfg.name`` for a Namespace, a dataclass or an omegaconf node; ``default`` if absent or None.

    omegaconf in struct mode raises for unknown names where argparse does not.
    """
    try:
        value = getattr(cfg, name, None)
    except Exception as error:  # omegaconf's own errors have no common base across versions
        logger.debug("option %s cannot be read: %s", name, error)
        value = None
    return default if value is None else value


def autocast_dtype(device_type: str) -> Optional[torch.dtype]:
    """The dtype that autocast computes in on this kind of device, or None where it is off."""
    if hasattr(torch, "get_autocast_dtype"):  # torch >= 2.4
        return (
            torch.get_autocast_dtype(device_type)
            if torch.is_autocast_enabled(device_type)
            else None
        )
    if device_type == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None


def before_loading(module: torch.nn.Module, check: Callable[[torch.nn.Module, Any], None]) -> None:
    """Call ``check(module, state)`` before weights are loaded into ``module``; it may raise."""
    register = getattr(module, "register_load_state_dict_pre_hook", None)
    if register is not None:  # public since torch 2.5
        register(lambda own, state, *_: check(own, state))
        return
    module._register_load_state_dict_pre_hook(lambda state, *_: check(module, state))
