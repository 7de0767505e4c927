"""Ctrl-C and kills: a status, no traceback, nothing half-written; a re-run gives the same result."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import pytest
import yaml
from helpers import forks, kept
from helpers.small import preparing, write_text

from fairseq_gmlm.cli.main import main

INTERRUPTED = 130
# Before which of its files a run is stopped, from one run to the next; each goes on from the last.
STOPS = (1, 1, 2, 3, 5, 8, 13, 21, 34)


def check_stopped(ended: forks.Ended, number: int) -> None:
    """The process ended as the signal asks for, and said little."""
    if number == signal.SIGKILL:
        assert ended.code == -number
        return
    assert ended.code == INTERRUPTED, ended.text
    assert "Traceback" not in ended.text
    assert ended.text.rstrip().endswith(": interrupted")


def until_it_ends(arguments: Sequence[object], made: Path) -> int:
    """Stop a command again and again, by kills and Ctrl-C in turn, until a run completes.

    Returns:
        how often it was stopped.
    """
    for turn, stop in enumerate(STOPS):
        number = (signal.SIGKILL, signal.SIGINT)[turn % 2]
        ended = forks.run(arguments, forks.at_rename(stop, number))
        if ended.code == 0:
            return turn
        check_stopped(ended, number)
        assert not made.exists(), f"run {turn + 1} left {made}"
    raise AssertionError(f"not done after {len(STOPS)} runs")


def files(folder: Path) -> Dict[str, bytes]:
    """Content by name, without logs, and what a killed process left under a name that says so."""
    paths = [path for path in folder.iterdir() if path.suffix not in (".log", ".tmp")]
    return {path.name: path.read_bytes() for path in paths}


def test_prepare_stopped_at_any_file(tmp_path: Path) -> None:
    raw = write_text(tmp_path)
    assert main(preparing(raw, raw / "whole")) == 0
    assert until_it_ends(preparing(raw, raw / "bin"), raw / "bin") >= 5
    assert files(raw / "bin") == files(raw / "whole")
    assert not (raw / "bin.partial").exists()


def distilling(small: Dict[str, Path], data: Path, out: Path) -> List[str]:
    """Arguments of ``fairseq-gmlm distill`` in six chunks."""
    words = ["distill", "--path", small["transformer"], "--data", data, "--destdir", out]
    more = ["--cpu", "--beam", 2, "--max-len-b", 5, "--chunk-size", 10, "--threads", 1]
    return [str(word) for word in (*words, *more)]


def test_distill_stopped_at_any_file(
    small: Dict[str, Path], small_data: Path, tmp_path: Path
) -> None:
    arguments = distilling(small, small_data, tmp_path / "bin")
    assert main(distilling(small, small_data, tmp_path / "whole")) == 0
    assert until_it_ends(arguments, tmp_path / "bin") >= 5
    found, whole = files(tmp_path / "bin"), files(tmp_path / "whole")
    records = [json.loads(each.pop("distill.json")) for each in (found, whole)]
    for record in records:
        record.pop("seconds")
    assert found == whole and records[0] == records[1]
    assert not (tmp_path / "bin.partial").exists()


def test_compare_stopped_at_any_file(
    small: Dict[str, Path], small_data: Path, tmp_path: Path
) -> None:
    systems = [
        {"name": "ar", "path": str(small["transformer"]), "options": {"beam": 2, "max_len_b": 5}},
        {"name": "gmlm", "path": str(small["gmlm_transformer"]),
         "options": {"iter_decode_max_iter": 2}},
    ]  # fmt: skip
    spec = {"data": str(small_data), "batch_size": 4, "latency_sentences": 1, "systems": systems}
    (tmp_path / "systems.yaml").write_text(yaml.safe_dump(spec), "utf-8")

    def comparing(out: Path) -> List[str]:
        out.mkdir()
        words = ["compare", tmp_path / "systems.yaml", "--cache", out / "cells", "--json"]
        return [str(word) for word in (*words, out / "rows.json", "--outputs", out / "texts")]

    def result(out: Path) -> Any:
        rows = json.loads((out / "rows.json").read_text("utf-8"))
        kept_fields = ("name", "bleu", "chrf", "passes", "parameters")
        return [{k: row.get(k) for k in kept_fields} for row in rows], files(out / "texts")

    assert main(comparing(tmp_path / "whole")) == 0
    stopped = tmp_path / "stopped"
    assert until_it_ends(comparing(stopped), stopped / "rows.json") >= 3
    assert result(stopped) == result(tmp_path / "whole")


def written(command: str, small: Dict[str, Path], data: Path, out: Path) -> List[object]:
    """Arguments of a command that writes the file ``out``."""
    gmlm, common = small["gmlm_transformer"], ["--data", data, "--cpu"]
    return {
        "average": ["average", "--inputs", gmlm, gmlm, "--output", out],
        "warm-start": ["warm-start", "--path", small["transformer"], "--output", out],
        "import-cmlm": ["import-cmlm", "--path", small["cmlm_transformer"], "--data", data,
                        "--output", out],
        "analyze": ["analyze", "--path", gmlm, *common, "--json", out, "--no-alignment",
                    "--bootstrap", 10, "--sentences", 2],
        "trace": ["trace", "--path", gmlm, *common, "--html", out, "--ids", "0"],
    }[command]  # fmt: skip


@pytest.mark.parametrize("command", ["average", "warm-start", "import-cmlm", "analyze", "trace"])
def test_one_file_is_whole_or_not_there(
    command: str, small: Dict[str, Path], small_data: Path, tmp_path: Path
) -> None:
    arguments = written(command, small, small_data, tmp_path / "made")
    for number in (signal.SIGINT, signal.SIGKILL):
        check_stopped(forks.run(arguments, forks.at_rename(1, number)), number)
        assert not (tmp_path / "made").exists()
        assert number == signal.SIGKILL or os.listdir(tmp_path) == []
    assert forks.run(arguments).code == 0
    assert (tmp_path / "made").stat().st_size > 100


def reading(command: str, small: Dict[str, Path], data: Path) -> List[object]:
    """Arguments of a command that reads its standard input."""
    path = kept.FOLDER / "0.1.0" / "gmlm_lm.pt"
    if command == "trace":
        return ["trace", "--path", small["gmlm_transformer"], "--data", data, "--cpu"]
    return [command, "--path", path, "--data", path.parent, "--cpu"]


@pytest.mark.parametrize("command", ["fill", "score", "trace"])
def test_ctrl_c_while_it_waits_for_lines(
    command: str, small: Dict[str, Path], small_data: Path
) -> None:
    process = forks.Forked(reading(command, small, small_data), stdin=True)
    process.send("anna sees a cat .\n")
    process.signal(signal.SIGINT)
    ended = process.wait()
    check_stopped(ended, signal.SIGINT)
    assert ended.seconds < 10


def test_ctrl_c_ends_the_workers_too_and_only_one_process_speaks(tmp_path: Path) -> None:
    raw = write_text(tmp_path, train=60_000)
    process = forks.Forked([*preparing(raw, raw / "bin"), "--workers", 2])
    forks.until(lambda: len(process.children()) >= 2 and list((raw / "bin.partial").glob("*tok*")))
    process.signal(signal.SIGINT)
    ended = process.wait()
    check_stopped(ended, signal.SIGINT)
    assert ended.seconds < 20 and "Process " not in ended.text
    forks.until(lambda: not process.children(), 20)
    assert not (raw / "bin").exists()


def test_the_command_as_a_user_starts_it() -> None:
    line = [sys.executable, "-m", "fairseq_gmlm.cli.main", *map(str, reading("fill", {}, Path()))]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A job in the background of a shell starts with Ctrl-C ignored, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        process.stdin.write("anna sees a ___ cat .\n")
        process.stdin.flush()
        forks.until(lambda: forks.unread(process.stdin.fileno()) == 0, 240)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert err.endswith("fairseq-gmlm fill: interrupted\n") and "Traceback" not in err


def killed_when_tidying(made: Path) -> Callable[[], None]:
    """For ``before``: a kill after the last rename, when only the work folder has to go."""

    def change() -> None:
        remove = shutil.rmtree

        def killing(*names: Any, **more: Any) -> None:
            if made.exists():
                os.kill(os.getpid(), signal.SIGKILL)
            remove(*names, **more)

        shutil.rmtree = killing

    return change


def test_killed_when_all_was_done(small: Dict[str, Path], small_data: Path, tmp_path: Path) -> None:
    raw = write_text(tmp_path)
    commands = [preparing(raw, raw / "bin"), distilling(small, small_data, raw / "distilled")]
    for arguments, made in zip(commands, (raw / "bin", raw / "distilled")):
        ended = forks.run(arguments, killed_when_tidying(made))
        assert ended.code == -signal.SIGKILL, ended.text
        whole, work = files(made), made.with_name(f"{made.name}.partial")
        assert work.exists()
        assert main(arguments) == 0
        assert files(made) == whole and not work.exists()
