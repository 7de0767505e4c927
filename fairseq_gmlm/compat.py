"""What differs between versions of fairseq and torch, and nothing else."""

import argparse
import logging
from typing import Any, Callable, List, Optional, Tuple

import torch

try:
    from fairseq.logging import metrics  # a package of its own since 0.12
except ImportError:
    metrics = None  # the pure parts run without fairseq

logger = logging.getLogger(__name__)


def _numpy_types() -> List[Any]:
    """Types that fairseq's meters leave in a checkpoint, under numpy 1 and 2."""
    import numpy as np

    core = getattr(np, "_core", None) or np.core
    functions = [core.multiarray.scalar, core.multiarray._reconstruct]
    types: List[Any] = [*functions, np.dtype, np.ndarray]
    # numpy >= 1.25 gives each dtype a class of its own, and pickles refer to it.
    dtypes = getattr(np, "dtypes", None)
    if dtypes is not None:
        names = ("Float32DType", "Float64DType", "Int32DType", "Int64DType", "BoolDType")
        types += [getattr(dtypes, name) for name in names if hasattr(dtypes, name)]
    return types


def _renamed_numpy_types() -> List[Any]:
    """The same functions under the module name that the other major version of numpy writes."""
    import numpy as np

    core = getattr(np, "_core", None) or np.core
    functions = (core.multiarray.scalar, core.multiarray._reconstruct)
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    return [(f, f"{module}.{f.__name__}") for f in functions for module in modules]


def allow_checkpoint_types() -> None:
    """Let ``torch.load(weights_only=True)`` read fairseq's checkpoints.

    torch >= 2.6 refuses them because they hold an ``argparse.Namespace`` and numpy scalars and
    arrays (meters). All are plain data, so they are allow-listed; the check itself stays on, and a
    file with any other class in it is still refused. torch < 2.4 has no such list.
    """
    add = getattr(torch.serialization, "add_safe_globals", None)
    if add is None:
        return
    add([argparse.Namespace, *_numpy_types()])
    if torch_version() >= (2, 6):  # pairs of object and name are understood from here on
        add(_renamed_numpy_types())


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
