"""Hours of fairseq-interactive on lines of every kind: nothing lost, memory constant?

    python benchmarks/soak.py --path CHECKPOINT --data DATA_BIN --text FILE --minutes 60 --json FILE

The words of FILE, with empty lines, control characters, bytes that are no UTF-8, lines of 10,000 words
and so on between them (the lines of the fuzz tests). Every line must have one answer, in order and
without a mask. Writes the resident memory over time, and draws it beside the JSON file.
"""

import argparse
import datetime
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers import fuzz  # noqa: E402

from fairseq_gmlm.comparison.plots import import_matplotlib  # noqa: E402
from fairseq_gmlm.data.files import write_json  # noqa: E402

HYPOTHESIS = re.compile(rb"^H-(\d+)\t[^\t]*\t?(.*)$", re.DOTALL)


def resident_mib(process: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def answers(stream: IO[bytes], first: int, count: int) -> None:
    """Read as many hypotheses as lines were sent.

    Raises:
        RuntimeError: another line's answer comes, a mask is in one, or the process ends.
    """
    for number in range(first, first + count):
        while True:
            line = stream.readline()
            if not line:
                raise RuntimeError(f"fairseq-interactive ended before line {number}'s answer")
            found = HYPOTHESIS.match(line.rstrip(b"\n"))
            if found:
                break
        if int(found.group(1)) != number:
            raise RuntimeError(f"the answer to line {found.group(1).decode()} came for {number}")
        if b"mask>" in found.group(2):
            raise RuntimeError(f"a mask in the answer to line {number}: {found.group(2)!r}")


def batches(words: List[str], size: int, seed: int):
    """Endless batches of lines; two of every thousand lines are enormous."""
    rng = random.Random(seed)
    while True:
        thousand = fuzz.lines(words, 1000, rng.randrange(2**32))
        for start in range(0, len(thousand), size):
            yield thousand[start : start + size]


def soak(command: List[str], words: List[str], args: argparse.Namespace) -> List[Dict[str, float]]:
    """Feed the process; returns seconds, lines and MiB, once in ``args.every`` seconds."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:surrogateescape", "PYTHONPATH": str(ROOT)},
    )
    curve: List[Dict[str, float]] = []
    began, done = time.time(), 0
    try:
        for lines in batches(words, args.buffer, args.seed):
            try:
                process.stdin.write(b"\n".join(lines) + b"\n")
                process.stdin.flush()
            except BrokenPipeError as error:
                message = f"fairseq-interactive ended before line {done} was sent"
                raise RuntimeError(message) from error
            answers(process.stdout, done, len(lines))
            done += len(lines)
            seconds = time.time() - began
            if not curve or seconds - curve[-1]["seconds"] >= args.every:
                mib = resident_mib(process.pid)
                curve.append({"seconds": round(seconds), "lines": done, "mib": round(mib, 1)})
                print(curve[-1], flush=True)
            if seconds > 60 * args.minutes:
                break
            time.sleep(args.pause)
        process.stdin.close()
        if process.wait(timeout=120):
            raise RuntimeError(f"fairseq-interactive ended with status {process.returncode}")
    finally:
        process.kill()
    return curve


def slope(curve: List[Dict[str, float]]) -> float:
    """MiB an hour over the second half, by least squares.

    >>> slope([{"seconds": 3600 * t, "mib": 100 + 2 * t} for t in range(4)])
    2.0
    """
    half = curve[len(curve) // 2 :]
    hours = [point["seconds"] / 3600 for point in half]
    mean, level = sum(hours) / len(half), sum(point["mib"] for point in half) / len(half)
    spread = sum((h - mean) ** 2 for h in hours)
    if not spread:
        return 0.0
    return sum((h - mean) * (p["mib"] - level) for h, p in zip(hours, half)) / spread


def draw(curve: List[Dict[str, float]], path: Path) -> None:
    """The curve as a picture."""
    import_matplotlib()
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3))
    axes.plot([p["seconds"] / 60 for p in curve], [p["mib"] for p in curve])
    axes.set(xlabel="minutes", ylabel="resident memory, MiB", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(path)


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--path", type=Path, required=True, help="checkpoint of a GMLM")
    add("--data", type=Path, required=True, help="its data-bin")
    add("--text", type=Path, required=True, help="file whose words the lines are made of")
    add("--minutes", type=float, default=60.0, help="how long (default: 60)")
    add("--every", type=float, default=30.0, help="seconds between readings (default: 30)")
    add("--buffer", type=int, default=50, help="lines sent at a time (default: 50)")
    add("--pause", type=float, default=0.0, help="seconds of rest between (default: 0)")
    add("--seed", type=int, default=1, help="of the lines")
    add("--json", type=Path, required=True, help="where the curve goes; the picture beside it")
    return parser.parse_args(argv)


def main(argv: Optional[List[str]] = None) -> int:
    """Run, write, tell."""
    args = parse(argv)
    words = sorted(set(args.text.read_text("utf-8").split()))
    command = [
        # Unbuffered, or the last answers of a batch would wait for the next batch.
        sys.executable, "-u", "-m", "fairseq_cli.interactive", str(args.data), "--path", str(args.path),
        "--task", "translation_gmlm", "--user-dir", str(ROOT / "fairseq_gmlm"), "--cpu",
        "--buffer-size", str(args.buffer), "--batch-size", str(args.buffer),
        "--iter-decode-max-iter", "3", "--iter-decode-with-beam", "3",
    ]  # fmt: skip
    curve = soak(command, words, args)
    result: Dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "minutes": args.minutes,
        "lines": curve[-1]["lines"],
        "mib_at_first": curve[0]["mib"],
        "mib_at_most": max(point["mib"] for point in curve),
        "mib_at_last": curve[-1]["mib"],
        "mib_an_hour_in_the_second_half": round(slope(curve), 2),
        "curve": curve,
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.json, result)
    draw(curve, args.json.with_suffix(".png"))
    print(json.dumps({name: value for name, value in result.items() if name != "curve"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
