"""An ordered map over many processes that never reads far ahead of what it has answered."""

import collections
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import popen_fork
from typing import Any, Callable, Deque, Iterable, Iterator, Tuple, TypeVar

from fairseq_gmlm.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOST = "a worker process was killed, perhaps for want of memory: use fewer --workers"

_function: Callable[[Any], Any]
_LOST_STATUS = 75


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C until the block ends, and from the processes that start in it for good.

    It reaches every process of a terminal; the parent says so, once, and ends its workers. In the
    middle of a fork Python would drop it, or leave workers behind. Blocking the signal would not
    do: any other thread, such as tqdm's, takes it then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = []
    before = signal.signal(signal.SIGINT, lambda *_: held.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if held:
            signal.raise_signal(signal.SIGINT)


def _start(
    parent: int, make: Callable[..., Callable[[Any], Any]], arguments: Tuple[Any, ...]
) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _watch(_end_with, parent)
    _function = make(*arguments)


def _call(item: Any) -> Any:
    return _function(item)


def ordered_map(
    make: Callable[..., Callable[[Item], Result]],
    arguments: Tuple[Any, ...],
    items: Iterable[Item],
    workers: int,
) -> Iterator[Result]:
    """Results of ``make(*arguments)`` called on each item, in order.

    ``make`` runs once per process, so what it builds need not be picklable. ``workers`` below 2
    stays in this process.

    Raises:
        UserError: when a worker was killed, which usually means that memory ran out.
    """
    if workers < 2:
        yield from map(make(*arguments), items)
        return
    pending: Deque[Future[Result]] = collections.deque()
    start = os.getpid(), make, arguments
    with ProcessPoolExecutor(workers, initializer=_start, initargs=start) as pool:
        try:
            for item in items:
                with _interrupts_held():
                    pending.append(pool.submit(_call, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError(_LOST) from error
        finally:
            for future in pending:
                future.cancel()


def _end_with(parent: int, seconds: float = 0.5) -> None:
    """Look whether the parent lives; a killed one leaves locks and files to its workers."""
    while os.getppid() == parent:
        time.sleep(seconds)
    os._exit(_LOST_STATUS)


def _watch(function: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def _end_when_one_is_lost() -> None:
    """Let this process end when a child of it was killed: a ``Pool`` starts another, and waits.

    For a process that does nothing else; whoever asks for a child's status finds out.
    """
    poll = popen_fork.Popen.poll

    def checked(self: Any, flag: int = os.WNOHANG) -> Any:
        status = poll(self, flag)
        if status not in (None, 0):
            os._exit(_LOST_STATUS)
        return status

    popen_fork.Popen.poll = checked


def _lead(function: Callable[[], None], errors: Any, parent: int) -> None:
    """What the first process of a group does."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    _end_when_one_is_lost()
    _watch(_end_group_with, parent)
    try:
        function()
    except Exception as error:
        errors.put(error)


def _end_group_with(parent: int, seconds: float = 0.5) -> None:
    while os.getppid() == parent:
        time.sleep(seconds)
    os.killpg(0, signal.SIGKILL)


def in_a_group(function: Callable[[], None]) -> None:
    """Call a function that starts processes by itself, as fairseq's preprocess does, in a new process.

    All of them end with this process, at Ctrl-C, and when one of them was killed.

    Raises:
        UserError: one was killed.
        Exception: what the function raised.
    """
    context = multiprocessing.get_context("fork")
    errors = context.SimpleQueue()
    with _interrupts_held():
        leader = context.Process(target=_lead, args=(function, errors, os.getpid()))
        leader.start()
    try:
        with contextlib.suppress(OSError):
            os.setpgid(leader.pid, leader.pid)  # both sides do, since either may be the first
        leader.join()
    finally:
        with contextlib.suppress(OSError):
            os.killpg(leader.pid, signal.SIGKILL)
        leader.join()
    if not errors.empty():
        raise errors.get()
    if leader.exitcode != 0:
        raise UserError(_LOST)
