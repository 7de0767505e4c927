"""Peak memory of one system's training, in a process of its own.

    python benchmarks/training_memory.py '["gmlm_transformer", "float32", {...}, 1]'

Prints MiB: of the interpreter with its libraries, and at most of the whole process after a few
updates; on a GPU what torch has allocated there.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Tuple

from training import Size, Updates, random_pairs

UPDATES = 4


def peak_of(system: str, dtype: str, size: Size, threads: int) -> Tuple[float, float]:
    """MiB before the model is there, and at most.

    Raises:
        RuntimeError: the process failed, with the end of what it said.
    """
    task = json.dumps([system, dtype, asdict(size), threads])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), task], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{system}: peak memory: {done.stderr[-2000:]}")
    before, most = map(float, done.stdout.split()[-2:])
    return before, most


def main() -> None:
    """Train for a few updates and print the peak."""
    import torch
    from peak_memory import high_water

    system, dtype, size, threads = json.loads(sys.argv[1])
    torch.set_num_threads(threads)
    size = Size(**size)
    pairs = random_pairs(size, UPDATES)
    before = high_water()
    with tempfile.TemporaryDirectory() as folder:
        update = Updates(system, dtype, size, pairs, Path(folder))
        for _ in range(UPDATES):
            update()
    if update.device == "cuda":
        print(0.0, torch.cuda.max_memory_allocated() / 2**20)
    else:
        print(before, high_water())


if __name__ == "__main__":
    main()
