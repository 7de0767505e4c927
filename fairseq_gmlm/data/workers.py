"""An ordered map over many processes that never reads far ahead of what it has answered."""

import collections
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Deque, Iterable, Iterator, Tuple, TypeVar

from fairseq_gmlm.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_function: Callable[[Any], Any]


def _start(make: Callable[..., Callable[[Any], Any]], arguments: Tuple[Any, ...]) -> None:
    global _function
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
    with ProcessPoolExecutor(workers, initializer=_start, initargs=(make, arguments)) as pool:
        try:
            for item in items:
                pending.append(pool.submit(_call, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise UserError(
                "a worker process was killed, perhaps for want of memory: use fewer --workers"
            ) from error
        finally:
            for future in pending:
                future.cancel()
