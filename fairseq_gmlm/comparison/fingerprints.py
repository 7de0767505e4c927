"""What decides a result, as keys of its cell: files by content, options, versions, machine."""

import functools
import hashlib
import os
import platform
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

import fairseq_gmlm
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.data.checkpoints import field, load_checkpoint, section
from fairseq_gmlm.data.files import sha256_of
from fairseq_gmlm.data.versions import installed_versions

PACKAGE = Path(fairseq_gmlm.__file__).parent


@functools.cache
def _content(path: str, size: int, time: int) -> str:
    return sha256_of(Path(path))


def content_of(path: str) -> str:
    """SHA-256 of a file; read once as long as its size and time stay."""
    status = os.stat(path)
    return _content(os.path.realpath(path), status.st_size, status.st_mtime_ns)


def data_files(data: str, split: str) -> List[Path]:
    """The binarised files of a split and the dictionaries."""
    folder = Path(data)
    kept = [p for p in folder.glob(f"{split}.*-*.*") if p.suffix in (".bin", ".idx")]
    return sorted([*kept, *folder.glob("dict.*.txt")])


@functools.cache
def code_digest(*parts: str) -> str:
    """SHA-256 over the sources of some of this package's files and folders, and at its top."""
    files = sorted(PACKAGE.glob("*.py"))
    for part in parts:
        path = PACKAGE / part
        files += [path] if path.is_file() else sorted(path.rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def processor() -> str:
    """The CPU's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n")
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine(device: str) -> str:
    """What the timing ran on, in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = f"{processor()}, {cores} CPUs"
    if device == "cuda":
        name = f"{torch.cuda.get_device_name()}, {name}"
    return f"{name}, torch {torch.__version__}"


def _code(row: SystemSpec) -> Optional[str]:
    """Digest of what this package does for a row; None where fairseq alone decodes."""
    if row.engine == "ctranslate2":
        return code_digest("data/beam_search.py", "data/conversion.py")
    body = section(load_checkpoint(Path(row.path), mmap=True), "model")
    name = str(field(body, "_name") or field(body, "arch", ""))
    return code_digest("decoding", "models", "tasks") if name.startswith("gmlm") else None


def decoding_key(spec: ComparisonSpec, data: str, row: SystemSpec, number: int) -> Dict[str, Any]:
    """What decides the translations of one checkpoint of a row.

    The name is not in it: a row may be renamed.
    """
    engine = [row.engine, row.compute_type]
    packages = ["ctranslate2"] if row.engine == "ctranslate2" else []
    return {
        "checkpoint": content_of(row.checkpoints[number]),
        "reranker": content_of(row.reranker) if row.reranker else None,
        "options": row.options,
        "engine": engine,
        "data": {path.name: content_of(str(path)) for path in data_files(data, spec.split)},
        "split": spec.split,
        "batch_size": spec.batch_size,
        "device": spec.device,
        "versions": installed_versions(*packages),
        "code": _code(row),
    }


def timing_key(decoding: Dict[str, Any], spec: ComparisonSpec, **more: Any) -> Dict[str, Any]:
    """What decides a time, beside what decides the translations."""
    rest = {name: value for name, value in decoding.items() if name != "batch_size"}
    return {**rest, "threads": spec.threads, "machine": machine(spec.device), **more}


def load_average() -> Optional[float]:
    """Processes that wanted to run, mean of the last minute; None where nobody counts them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
