"""``fairseq-gmlm`` in a process forked from this one: signals and limits without a new start."""

import contextlib
import fcntl
import gc
import os
import select
import signal
import struct
import sys
import termios
import time
import traceback
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from fairseq_gmlm.cli.main import main

CRASHED = 99  # an exception that ``main`` let through


class Ended(NamedTuple):
    """A process that has ended.

    Attributes:
        code: exit status, or minus the signal that killed it.
        text: standard output and error.
        seconds: from ``wait`` to its end.
    """

    code: int
    text: str
    seconds: float


class Forked:
    """A command that runs, in a process group of its own.

    Args:
        arguments: of ``fairseq-gmlm``.
        before: called in the child first, to set limits or to change what it runs.
        stdin: keep its standard input open, for :meth:`send`; otherwise it is empty.
    """

    def __init__(
        self, arguments: Sequence[object], before: Optional[Callable[[], Any]] = None,
        stdin: bool = False,
    ) -> None:  # fmt: skip
        self._output, output = os.pipe()
        given, self._input = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            for number, descriptor in enumerate((given, output, output)):
                os.dup2(descriptor, number)
            for descriptor in (given, output, self._output, self._input):
                os.close(descriptor)
            _child([str(argument) for argument in arguments], before)
        os.close(given)
        os.close(output)
        if not stdin:
            os.close(self._input)

    def send(self, text: str, timeout: float = 120) -> None:
        """Write to its standard input, and wait until it has read all of it."""
        os.write(self._input, text.encode("utf-8"))
        until(lambda: unread(self._input) == 0, timeout)

    def signal(self, number: int) -> None:
        """Send a signal to it and its children, as a terminal does."""
        os.killpg(self.pid, number)

    def wait(self, timeout: float = 120) -> Ended:
        """Wait for its end; what takes longer is killed and fails the test."""
        started, parts, code = time.monotonic(), [], None
        while code is None:
            parts.append(self._read())
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() - started > timeout:
                self.signal(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"still running after {timeout} s: {b''.join(parts)!r}")
        seconds = time.monotonic() - started
        parts.append(self._read())
        os.close(self._output)
        return Ended(code, b"".join(parts).decode("utf-8", "replace"), seconds)

    def _read(self) -> bytes:
        found = b""
        while select.select([self._output], [], [], 0.01)[0]:
            part = os.read(self._output, 1 << 16)
            if not part:
                time.sleep(0.01)
                break
            found += part
        return found

    def children(self) -> List[int]:
        """Processes of its group but itself, without those that have ended."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stream:
                state, _, group = stream.read().rsplit(") ", 1)[1].split()[:3]
                if int(group) == self.pid != int(name) and state != "Z":
                    found.append(int(name))
        return found


def unread(descriptor: int) -> int:
    """Bytes that wait in a pipe."""
    return struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]


def _child(arguments: List[str], before: Optional[Callable[[], Any]]) -> None:
    """Run the command and end; never returns into the test."""
    code = CRASHED
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()  # what other tests left, loaders say, is not the child's to end
        gc.callbacks.clear()  # an interrupt in hypothesis's would be dropped there
        sys.unraisablehook = sys.__unraisablehook__  # pytest's keeps them to itself
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        if before is not None:
            before()
        code = main(arguments)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else CRASHED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def until(holds: Callable[[], Any], timeout: float = 120) -> None:
    """Wait until something holds."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < timeout, "waited in vain"
        time.sleep(0.005)


def run(arguments: Sequence[object], before: Optional[Callable[[], Any]] = None) -> Ended:
    """Start a command and wait for its end."""
    return Forked(arguments, before).wait()


def at_rename(count: int, number: int) -> Callable[[], None]:
    """For ``before``: the process gets a signal just before its ``count``-th file is whole."""

    def change() -> None:
        replace, left = os.replace, [count]

        def counted(*names: Any, **more: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), number)
            replace(*names, **more)

        os.replace = counted

    return change
