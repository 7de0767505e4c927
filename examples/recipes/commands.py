"""Commands of a recipe: run once, with a log, a bar, and a marker when they are done."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import List, Tuple

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]


def ours(*words: str) -> List[str]:
    """A command of this plugin."""
    return [sys.executable, "-m", "fairseq_gmlm.cli.main", *words]


def fairseq(tool: str, *words: str) -> List[str]:
    """A command of fairseq, such as ``train``."""
    return [sys.executable, "-m", f"fairseq_cli.{tool}", *words]


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of the step, of its log and of its marker.
        words: the command line.
        result: the file that it leaves.
        threads: threads of torch.
        needs: steps that must be done before.
    """

    name: str
    words: List[str]
    result: Path
    threads: int = 1
    needs: Tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """What a user would type."""
        words = list(self.words)
        if words[:2] == [sys.executable, "-m"]:
            tool = {"fairseq_gmlm.cli.main": "fairseq-gmlm"}.get(words[2])
            words[:3] = [tool or words[2].replace("fairseq_cli.", "fairseq-")]
        return shlex.join(words)


def marker(logs: Path, name: str) -> Path:
    """Where the command and seconds of the step ``name`` are noted when it is done."""
    return logs / f"{name}.done.json"


class Runner:
    """Runs steps; a step that was done by the same command is not run again.

    Args:
        output: folder; logs and markers go to ``logs`` in it.
    """

    def __init__(self, output: Path) -> None:
        self.logs = output / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    def marker(self, step: Step) -> Path:
        """Where a step's command and seconds are noted when it is done."""
        return marker(self.logs, step.name)

    def done(self, step: Step) -> bool:
        """Whether the step's result is there and whole.

        Raises:
            SystemExit: it was made by another command.
        """
        marker = self.marker(step)
        if not marker.is_file() or not step.result.exists():
            return False
        before = json.loads(marker.read_text("utf-8"))["command"]
        if before != step.shown:
            raise SystemExit(
                f"[{step.name}] was done by another command:\n  {before}\nnow it is:\n  "
                f"{step.shown}\nRemove {step.result.parent} and {marker} to run it again."
            )
        return True

    def run(self, step: Step, bar_at: int = 0) -> None:
        """Run one step unless it is done.

        Raises:
            SystemExit: the command failed; its log's end is the message.
        """
        if self.done(step):
            tqdm.write(f"[{step.name}] done before: {step.result}")
            return
        tqdm.write(f"[{step.name}] {step.shown}")
        match = re.search(r"--max-update (\d+)", step.shown)
        total = int(match.group(1)) if match else None
        form = {} if total else {"bar_format": "{desc}: {elapsed}"}
        step.result.parent.mkdir(parents=True, exist_ok=True)
        log, began = self.logs / f"{step.name}.log", time.time()
        with (
            log.open("ab") as stream,
            tqdm(
                total=total, desc=step.name, position=bar_at, leave=False, unit="update", **form
            ) as bar,
        ):
            code = _watched(step, stream, log, bar)
        if code or not step.result.exists():
            tail = log.read_text("utf-8", "replace").splitlines()[-15:]
            message = f"[{step.name}] failed with status {code}; see {log}"
            raise SystemExit("\n".join([*tail, message]))
        record = {"command": step.shown, "seconds": round(time.time() - began, 1)}
        marker = self.marker(step)
        partial = marker.with_suffix(".partial")
        partial.write_text(json.dumps({**record, "threads": step.threads}) + "\n", "utf-8")
        os.replace(partial, marker)


def _watched(step: Step, stream, log: Path, bar: tqdm) -> int:
    """Exit status of the step's process; the bar follows its log."""
    process = subprocess.Popen(
        step.words,
        stdout=stream,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": str(step.threads)},
        cwd=ROOT,
    )
    try:
        while True:
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                _advance(bar, log)
    except BaseException:
        process.terminate()
        raise


def _advance(bar: tqdm, log: Path) -> None:
    """Move the bar to the update that the log tells."""
    if bar.total is None:
        bar.refresh()
        return
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4000))
        found = re.findall(rb"num_updates[=\s]+(\d+)", stream.read())
    if found:
        bar.update(max(0, int(found[-1]) - bar.n))
