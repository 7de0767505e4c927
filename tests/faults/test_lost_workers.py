"""Processes that are killed: a message and a status, never a wait without end."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from fairseq.binarizer import FileBinarizer
from helpers import forks
from helpers.small import preparing, write_text

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.comparison import memory
from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.data import corpus, preparation
from fairseq_gmlm.data.workers import in_a_group
from fairseq_gmlm.errors import UserError

MESSAGE = "a worker process was killed, perhaps for want of memory: use fewer --workers"


def kill_this_process(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def double(number: int) -> int:
    return 2 * number


def pooled(function: Callable[[Any], Any]) -> Any:
    """As fairseq uses its pools."""
    pool = multiprocessing.Pool(2)
    results = [pool.apply_async(function, (number,)) for number in range(3)]
    pool.close()
    pool.join()
    return [result.get() for result in results]


def test_a_pool_that_lost_a_worker_does_not_hang() -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match=MESSAGE):
        in_a_group(lambda: pooled(kill_this_process))
    assert time.monotonic() - started < 60
    in_a_group(lambda: pooled(double))


def test_errors_of_a_pool_come_through() -> None:
    with pytest.raises(TypeError, match="has no len"):
        in_a_group(lambda: pooled(len))


def lose_while_tokenising() -> None:
    corpus._make_tokenize = lambda *_: kill_this_process


def lose_while_binarising() -> None:
    preparation.LINES_PER_WORKER = 1
    FileBinarizer._binarize_chunk_and_finalize = kill_this_process


@pytest.mark.parametrize("lose", [lose_while_tokenising, lose_while_binarising])
def test_prepare_says_so_and_a_re_run_completes(lose: Callable[[], None], tmp_path: Path) -> None:
    raw = write_text(tmp_path)
    arguments = [*preparing(raw, raw / "bin"), "--workers", "2"]
    ended = forks.run(arguments, lose)
    assert ended.code == 2, ended.text
    assert ended.text.rstrip().endswith(f"fairseq-gmlm prepare: error: {MESSAGE}")
    assert "Traceback" not in ended.text and not (raw / "bin").exists()
    assert main(arguments) == 0
    assert main(preparing(raw, raw / "whole")) == 0
    for path in (raw / "whole").iterdir():
        if path.suffix != ".log":
            assert (raw / "bin" / path.name).read_bytes() == path.read_bytes(), path.name


def sleep_while_binarising() -> None:
    preparation.LINES_PER_WORKER = 1
    FileBinarizer._binarize_chunk_and_finalize = lambda *_, **__: time.sleep(300)


def sleep_while_tokenising() -> None:
    corpus._make_tokenize = lambda *_: lambda batch: time.sleep(300)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_workers_end_with_their_parent(number: int, tmp_path: Path) -> None:
    """Orphans would hold the folder's lock, and a re-run could not begin."""
    raw = write_text(tmp_path)
    arguments = [*preparing(raw, raw / "bin"), "--workers", "3"]
    process = forks.Forked(arguments, sleep_while_binarising)
    forks.until(lambda: (raw / "bin.partial" / "bin" / "dict.de.txt").exists())
    os.kill(process.pid, number)
    ended = process.wait()
    assert ended.code == (130 if number == signal.SIGINT else -number), ended
    assert "Traceback" not in ended.text and ended.seconds < 60
    forks.until(lambda: main(arguments) == 0, 60)


def test_workers_of_a_killed_parent_let_the_folder_go(tmp_path: Path) -> None:
    raw = write_text(tmp_path)
    arguments = [*preparing(raw, raw / "bin"), "--workers", "2"]
    process = forks.Forked(arguments, sleep_while_tokenising)
    forks.until(lambda: len(process.children()) == 2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait().code == -signal.SIGKILL
    forks.until(lambda: main(arguments) == 0, 60)


def test_a_killed_measurement_of_memory_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -9 $$\n", "utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(memory.sys, "executable", str(script))
    spec = SystemSpec(name="ours", path="c.pt", options={})
    with pytest.raises(UserError, match="'ours': measuring memory ended with status -9"):
        memory.measure_memory(spec, "data", "test", "cpu", 1, 1)
