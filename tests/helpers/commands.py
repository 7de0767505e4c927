"""Running fairseq's commands, and reading what they print."""

import contextlib
import functools
import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Union
from unittest import mock

import fairseq_gmlm  # noqa: F401  (registers the plugin for ``call``)

Argument = Union[str, int, float, Path]
PACKAGE = Path(__file__).resolve().parents[2] / "fairseq_gmlm"
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


class Finished(NamedTuple):
    """A command that has ended.

    Attributes:
        code: exit status.
        out: standard output.
        err: standard error (where fairseq's log goes).
    """

    code: int
    out: str
    err: str


def run(
    command: str,
    *args: Argument,
    stdin: Optional[Union[str, bytes]] = None,
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[Path] = None,
    processes: int = 1,
    fails: bool = False,
) -> Finished:
    """Run ``fairseq-<command>`` in a process of its own.

    Args:
        command: ``train``, ``generate``, ``interactive``, ``validate``, ``hydra_train``, ...
        args: its arguments.
        stdin: text or bytes for its standard input.
        env: environment variables to add; with others than PYTHONIOENCODING it is a new process.
        cwd: working directory; default: this checkout.
        processes: above 1, torchrun starts so many; see ``_torchrun``.
        fails: the command must fail; otherwise it must not.
    """
    module, place = f"fairseq_cli.{command}", cwd or PACKAGE.parent
    data = stdin.encode("utf-8") if isinstance(stdin, str) else stdin or b""
    environment = {**_ENVIRONMENT, **(env or {})}
    if processes == 1 and environment.keys() == _ENVIRONMENT.keys():
        encoding = environment["PYTHONIOENCODING"]
        done = start_module(module, *args, stdin=data, encoding=encoding, cwd=place)
    else:
        line = [sys.executable, "-m", module] if processes == 1 else _torchrun(module, processes)
        ended = subprocess.run(
            [*line, *map(str, args)],
            input=data,
            capture_output=True,
            env={**os.environ, **environment},
            cwd=place,
            timeout=600,
        )
        out, err = (part.decode("utf-8", "replace") for part in (ended.stdout, ended.stderr))
        done = Finished(ended.returncode, out, err)
    assert (done.code != 0) == fails, f"{module} {args} ended with {done.code}:\n{done.err[-4000:]}"
    return done


def start_module(
    module: str,
    *args: Argument,
    stdin: bytes = b"",
    encoding: str = _ENVIRONMENT["PYTHONIOENCODING"],
    cwd: Path = PACKAGE.parent,
    timeout: float = 600,
) -> Finished:
    """``python -m MODULE`` in a process of its own, without the time that imports take.

    Args:
        module, args: the command line.
        stdin: all of its standard input.
        encoding: of its standard streams, as in PYTHONIOENCODING.
        cwd: working directory.
        timeout: in seconds.

    Raises:
        TimeoutError: it still runs after ``timeout`` seconds; it is killed.
    """
    server = _server(encoding)
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / name for name in ("in", "out", "err")]
        for path in streams:
            path.write_bytes(stdin if path.name == "in" else b"")
        line = [module, *map(str, args)]
        request = {"line": line, "cwd": str(cwd), "streams": list(map(str, streams))}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise TimeoutError(f"{module} {args}: still running after {timeout} s")
        code = int(server.stdout.readline())
        out, err = (path.read_bytes().decode("utf-8", "replace") for path in streams[1:])
    return Finished(code, out, err)


@functools.cache
def _server(encoding: str) -> subprocess.Popen:
    """The process that forks; it ends with this one."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("server.py"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, **_ENVIRONMENT, "PYTHONIOENCODING": encoding},
    )  # fmt: skip


def _torchrun(module: str, processes: int) -> List[str]:
    """Start a module in several processes on CPUs.

    fairseq takes up torchrun's variables only for GPUs: without --distributed-world-size it trains
    apart in each process, and with it alone divides by the number of GPUs. So all is spelt out.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = f'exec "$0" -m {module} "$@" --distributed-rank "$RANK"'
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes),
        "--master_port", port, "--no-python", "sh", "-c", script, sys.executable,
    ]  # fmt: skip


def call(command: str, *args: Argument) -> str:
    """Run a command in this process, which spares its start; returns what it printed.

    The plugin is imported already, so no ``--user-dir`` may be among ``args``. Exceptions come
    through. Data is loaded here as well unless ``args`` has ``--num-workers``: a worker forked from
    a process full of tests takes seconds to end.
    """
    module = import_module(f"fairseq_cli.{command}")
    out = io.StringIO()
    line = [f"fairseq-{command}", *map(str, args)]
    if (
        command in ("generate", "validate", "interactive", "eval_lm")
        and "--num-workers" not in line
    ):
        line += ["--num-workers", "0"]
    with mock.patch.object(sys, "argv", line), contextlib.redirect_stdout(out):
        module.cli_main()
    return out.getvalue()


class Hypothesis(NamedTuple):
    """One H-line: score in base 2, as printed, and text."""

    score: float
    text: str


def hypotheses(printed: str) -> Dict[int, List[Hypothesis]]:
    """H-lines by sentence number, in the order printed."""
    found: Dict[int, List[Hypothesis]] = {}
    for line in printed.split("\n"):
        match = re.match(r"H-(\d+)\t([^\t]+)\t(.*)$", line)
        if match:
            found.setdefault(int(match[1]), []).append(Hypothesis(float(match[2]), match[3]))
    return found


def tagged(printed: str, tag: str) -> Dict[int, str]:
    """Lines ``<tag>-<number>`` by number, text after the first tab."""
    pairs = re.findall(rf"^{tag}-(\d+)\t(.*)$", printed, re.MULTILINE)
    return {int(number): text for number, text in pairs}


def same(found: Dict[int, List[Hypothesis]], expected: Dict[int, List[Hypothesis]]) -> None:
    """Assert equal texts, and scores equal to 1e-4."""
    assert found.keys() == expected.keys()
    for number, wanted in expected.items():
        assert [h.text for h in found[number]] == [h.text for h in wanted], number
        for mine, other in zip(found[number], wanted):
            assert abs(mine.score - other.score) < 1e-4, number
