"""Peak memory of one system, in a process of its own.

    python benchmarks/peak_memory.py '{"system": {...}, "setting": {...}, "folder": null}'

Prints MiB: of the interpreter with its libraries, and at most of the whole process; on a GPU what
torch has allocated there. The kernel's high-water mark of this program's own address space is read, since
``ru_maxrss`` would start from that of the process that started it.
"""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional, Tuple

HERE = Path(__file__).resolve().parent


def peak_of(
    system: Any, setting: Any, folder: Optional[Path] = None
) -> Tuple[Optional[float], Optional[float]]:
    """MiB before the model is there, and at most; None where it cannot be told.

    Args:
        system, setting: see ``engines``.
        folder: of the converted model, for CTranslate2.
    """
    if setting.device == "cuda" and system.engine == "ctranslate2":
        return None, None  # allocates outside torch
    task = {
        "system": asdict(system), "setting": asdict(setting),
        "folder": None if folder is None else str(folder),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(HERE / "peak_memory.py"), json.dumps(task)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{system.label}: peak memory: {done.stderr[-2000:]}")
    before, most = map(float, done.stdout.split()[-2:])
    return before, most


def high_water() -> float:
    """Largest resident size of this process so far, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE).group(1)) / 1024


def main() -> None:
    """Build the system, decode twice, print the peak."""
    sys.path.insert(0, str(HERE))
    from engines import Setting, System, build_run
    from random_models import Size

    import fairseq_gmlm  # noqa: F401

    task = json.loads(sys.argv[1])
    setting = Setting(**{**task["setting"], "size": Size(**task["setting"]["size"])})
    folder = task["folder"]
    before = high_water()
    run = build_run(System(**task["system"]), setting, folder and Path(folder))
    run()
    run()
    if setting.device == "cuda":
        import torch

        print(0.0, torch.cuda.max_memory_allocated() / 2**20)
    else:
        print(before, high_water())


if __name__ == "__main__":
    main()
