"""Peak memory of one row, measured in a process that does nothing else.

    echo '{"system": {...}, "data": ..., ...}' | python -m fairseq_gmlm.comparison.memory

The child loads the first checkpoint of the row and translates two batches: the longest sources and
the middle ones. ``peak`` is its largest resident set while it translates, weights, Python and
libraries included; ``base`` its resident set before the checkpoint was read. On a GPU both are what
torch's allocator held there.
"""

import json
import re
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict

from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.errors import UserError

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _status(name: str) -> int:
    """A size from Linux's status of this process, in bytes; 0 elsewhere."""
    if not _STATUS.is_file():
        return 0
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text("ascii"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _reset_peak() -> bool:
    """Forget the peak so far; False where the system cannot, and loading then counts too."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def measure_here(request: Dict[str, Any]) -> Dict[str, int]:
    """Load, translate, and read the peak; for a process of its own.

    Args:
        request: ``system`` (fields of :class:`SystemSpec`), ``data``, ``split``, ``device``,
            ``threads``, ``batch_size``.

    Returns:
        ``base`` and ``peak`` in bytes, and ``decoding_only``: whether the peak leaves out loading.
    """
    import torch

    from fairseq_gmlm.comparison.loading import load_system
    from fairseq_gmlm.comparison.measuring import by_length, in_batches

    if request["threads"] > 0:
        torch.set_num_threads(request["threads"])
    base = _status("VmRSS")
    spec = SystemSpec(**request["system"])
    system = load_system(spec, request["data"], request["split"], request["device"])
    alone = _reset_peak()
    batches = in_batches(by_length([system]), request["batch_size"])
    for indices in (batches[-1], batches[len(batches) // 2]):
        system.translate(system.collate(indices))
    if request["device"] == "cuda":
        return {"base": 0, "peak": torch.cuda.max_memory_allocated(), "decoding_only": False}
    if alone and _status("VmHWM"):
        return {"base": base, "peak": _status("VmHWM"), "decoding_only": True}
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return {"base": base, "peak": peak, "decoding_only": False}


def measure_memory(
    spec: SystemSpec, data: str, split: str, device: str, threads: int, batch_size: int
) -> Dict[str, int]:
    """See :func:`measure_here`; starts the process.

    Raises:
        UserError: the process ended badly.
    """
    request = {
        "system": asdict(spec.seed(0)),
        "data": data,
        "split": split,
        "device": device,
        "threads": threads,
        "batch_size": batch_size,
    }
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(request),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        tail = " ".join(done.stderr.strip().split("\n")[-2:])
        raise UserError(
            f"system {spec.name!r}: measuring memory ended with status {done.returncode}: {tail}"
        )
    return json.loads(done.stdout.strip().split("\n")[-1])


if __name__ == "__main__":
    print(json.dumps(measure_here(json.load(sys.stdin))))
