"""Reading fairseq's checkpoint files without running code out of them."""

import functools
import os
import pickle
import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

from fairseq_gmlm.compat import load_plain, option
from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.errors import UserError

BY_EPOCH_OR_UPDATE = re.compile(r"checkpoint(\d+|_\d+_\d+)\.pt")
KEPT_BEST = re.compile(r"checkpoint\.best_(?P<metric>.+)_(?P<value>-?\d+\.?\d*)\.pt")


# What torch's and pickle's readers are known to raise on a file that is cut or changed.
_DAMAGED = (RuntimeError, EOFError, ValueError, LookupError, AssertionError, AttributeError,
            TypeError, ArithmeticError, MemoryError, zipfile.BadZipFile, zlib.error)  # fmt: skip


@functools.lru_cache(maxsize=64)
def _first_damaged(path: str, size: int, time: int) -> Optional[str]:
    """Name of the first record whose content is not what was written; None where all are whole.

    Looked up once as long as size and time of the file stay.
    """
    if not zipfile.is_zipfile(path):  # the format before torch 1.6 has no sums to check
        return None
    with zipfile.ZipFile(path) as records:
        return records.testzip()


def check_sums(path: Path) -> None:
    """Refuse a file with changed bits in it; torch itself reads them as other weights.

    Raises:
        UserError: naming the file.
    """
    status = os.stat(path)
    try:
        record = _first_damaged(os.path.realpath(path), status.st_size, status.st_mtime_ns)
    except _DAMAGED as error:
        raise UserError(f"{path}: damaged or cut short ({error}): copy it anew") from error
    if record is not None:
        raise UserError(
            f"{path}: damaged ({record} is not what was written): copy it anew, or take another "
            "checkpoint of the same training"
        )


def load_checkpoint(path: Path, mmap: bool = False) -> Dict[str, Any]:
    """A checkpoint on the CPU; only plain data is read, whatever the version of torch.

    Args:
        mmap: map tensors from the file instead of reading them; only what is used is read.

    Raises:
        UserError: naming the file when it is missing, damaged, holds anything but plain data, or
            is not a checkpoint of fairseq.
    """
    if os.path.isdir(path):
        raise UserError(f"{path}: a folder, not a checkpoint; give a file in it")
    try:
        check_sums(path)
        state = load_plain(path, mmap)
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except pickle.UnpicklingError as error:
        reason = str(error).strip().split("\n")[0]
        refused = re.search(r"Unsupported (?:global|class|operand).*|GLOBAL [^ ]+", str(error))
        raise UserError(
            f"{path}: refused, damaged or with more than plain data in it "
            f"({refused.group(0) if refused else reason})"
        ) from error
    except UserError:
        raise
    except _DAMAGED as error:
        if mmap and "mmap" in str(error):
            # Checkpoints in the format before torch 1.6 cannot be mapped.
            return load_checkpoint(path)
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"{path}: damaged or cut short ({reason})") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UserError(f"{path}: not a checkpoint of fairseq (it holds no model)")
    return state


def save_checkpoint(state: Dict[str, Any], path: Path) -> None:
    """Write a checkpoint; the file appears whole or not at all.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    with atomic_write(path, binary=True) as stream:
        try:
            torch.save(state, stream)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # torch hides what stopped its writing
                raise error.__context__ from None
            raise


def section(state: Dict[str, Any], name: str) -> Any:
    """``cfg.model``, ``cfg.task``, ``cfg.checkpoint`` ... of a checkpoint; old ones have one ``args``."""
    cfg = state.get("cfg")
    part = cfg.get(name) if cfg else None
    return part if part is not None else state.get("args")


def field(part: Any, name: str, default: Any = None) -> Any:
    """One option of a section, which is a dict in new checkpoints and a Namespace in old ones."""
    if isinstance(part, dict):
        value = part.get(name)
        return default if value is None else value
    return option(part, name, default)


@dataclass(frozen=True)
class Candidate:
    """What choosing among checkpoints needs to know of one file.

    Attributes:
        path: the file.
        updates: number of updates it was trained for.
        metric: name of the metric that its training kept the best by.
        value: its value at this checkpoint, or None when it was not validated.
        maximize: whether larger is better.
    """

    path: Path
    updates: int
    metric: str
    value: Optional[float]
    maximize: bool


def _inspect(path: Path) -> Candidate:
    state = load_checkpoint(path, mmap=True)
    options = section(state, "checkpoint")
    metric = field(options, "best_checkpoint_metric", "loss")
    value = (state.get("extra_state") or {}).get("val_loss")
    history = state.get("optimizer_history") or [{}]
    return Candidate(
        path=path,
        updates=int(history[-1].get("num_updates", 0)),
        metric=str(metric),
        value=None if value is None else float(value),
        maximize=bool(field(options, "maximize_best_checkpoint_metric", False)),
    )


def _inspect_all(folder: Path, pattern: List["re.Pattern[str]"]) -> List[Candidate]:
    if not folder.is_dir():
        raise UserError(f"--checkpoint-dir: no such folder: {folder}")
    paths = [p for p in sorted(folder.iterdir()) if any(r.fullmatch(p.name) for r in pattern)]
    # The same update can be saved under several names: once is enough.
    found = {candidate.updates: candidate for candidate in map(_inspect, paths)}
    return sorted(found.values(), key=lambda candidate: candidate.updates)


def last_checkpoints(folder: Path, count: int) -> List[Path]:
    """The ``count`` newest of ``checkpointN.pt`` and ``checkpoint_E_U.pt``, oldest first.

    Raises:
        UserError: when there are fewer.
    """
    found = _inspect_all(folder, [BY_EPOCH_OR_UPDATE])
    if len(found) < count:
        raise UserError(
            f"--last {count}: {folder} holds {len(found)} checkpoints of epochs or updates; "
            "train without --no-epoch-checkpoints, or with --save-interval-updates"
        )
    return [candidate.path for candidate in found[-count:]]


def best_checkpoints(folder: Path, count: int, metric: str) -> List[Path]:
    """The ``count`` best by the validation value that fairseq stored in them, best first.

    Raises:
        UserError: when there are fewer, or when training kept the best by another metric.
    """
    everything = _inspect_all(folder, [BY_EPOCH_OR_UPDATE, KEPT_BEST])
    found = [c for c in everything if c.metric == metric and c.value is not None]
    if len(found) < count:
        others = sorted({c.metric for c in everything} - {metric})
        hint = (
            f"its checkpoints are rated by {', '.join(others)}: give that as --metric"
            if others
            else f"train with --best-checkpoint-metric {metric} --keep-best-checkpoints {count}"
        )
        raise UserError(
            f"--best {count}: {folder} holds {len(found)} checkpoints rated by {metric}; {hint}"
        )
    found.sort(key=lambda c: (-c.value if c.maximize else c.value, -c.updates))
    return [candidate.path for candidate in found[:count]]
