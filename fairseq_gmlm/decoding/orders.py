"""Orders in which positions are revealed (u-PMLM, spec 7.3)."""

from pathlib import Path
from typing import Dict, List

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.errors import UserError

ORDERS = ("left-to-right", "right-to-left", "random", "surest-first", "file")
_ORDER_STREAM = 2

Given = Dict[int, Tensor]  # number of positions -> rank of each, int64 (n,)


def order_ranks(kind: str, free: Tensor, place: Tensor, rng: CounterRNG, given: Given) -> Tensor:
    """When each free position is revealed: its rank, from 0, int64 (R, T).

    Ranks of a row's n free positions are 0 .. n-1; the others get n or more.

    Args:
        kind: any of :data:`ORDERS` but ``surest-first``, which no one knows beforehand.
        free: bool (R, T).
        place: int64 (R, T), number of each position among the free ones of its row, from 0.
        rng: keyed by rows; a row's random order depends on nothing else.
        given: for ``file``, see :func:`read_orders`.

    Raises:
        ValueError: a row has a number of free positions for which no order is given.
    """
    count = free.sum(1, keepdim=True)
    if kind == "left-to-right":
        rank = place
    elif kind == "right-to-left":
        rank = count - 1 - place
    elif kind == "random":
        key = rng.per_position(_ORDER_STREAM, place).masked_fill(~free, 2.0)
        rank = inverse(key.argsort(dim=1, stable=True))
    elif kind == "file":
        rank = _given_ranks(free, place, given)
    else:
        raise ValueError(f"--decode-order must be one of {ORDERS}, not {kind!r}")
    return torch.where(free, rank, free.size(1) + count)


def inverse(order: Tensor) -> Tensor:
    """Rank of each column from columns in their order; both int64 (R, T)."""
    columns = torch.arange(order.size(1), device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, columns)


def _given_ranks(free: Tensor, place: Tensor, given: Given) -> Tensor:
    rank = torch.zeros_like(place)
    for row, count in enumerate(free.sum(1).tolist()):
        if count and count not in given:
            known = ", ".join(map(str, sorted(given))) or "none"
            raise ValueError(
                f"--decode-order-file has no order of {count} positions (it has {known}); add a "
                f"line with a permutation of 1 to {count}"
            )
        if count:
            here = free[row]
            rank[row, here] = given[count].to(rank.device)[place[row, here]]
    return rank


def parse_order(line: str) -> Tensor:
    """Ranks int64 (n,) from a permutation of 1 .. n: ``3 1 2`` reveals the third position first.

    Raises:
        ValueError: the line is none.
    """
    try:
        order = [int(word) for word in line.split()]
    except ValueError:
        order = []
    if not order or sorted(order) != list(range(1, len(order) + 1)):
        raise ValueError(f"expected a permutation of 1 to n, such as '3 1 2', found {line[:60]!r}")
    return inverse(torch.tensor([order]) - 1)[0]


def read_orders(path: str) -> Given:
    """Orders from a file: one on a line, for texts with as many free positions as it has numbers.

    Raises:
        UserError: no such file, a line that is no permutation, or two orders of one length.
    """
    try:
        lines: List[str] = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--decode-order-file {path}: cannot be read ({error})") from error
    given: Given = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            ranks = parse_order(line)
        except ValueError as error:
            raise UserError(f"--decode-order-file {path}, line {number}: {error}") from error
        if len(ranks) in given:
            raise UserError(
                f"--decode-order-file {path}, line {number}: a second order of {len(ranks)} "
                "positions; keep one"
            )
        given[len(ranks)] = ranks
    return given
