"""Orders in which positions are revealed."""

import pytest
import torch

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.orders import inverse, order_ranks, parse_order, read_orders
from fairseq_gmlm.errors import UserError

FREE = torch.tensor(
    [
        [False, True, True, False, True, False],
        [False, True, False, False, False, False],
    ]
)
PLACE = (FREE.long().cumsum(1) - 1).clamp(min=0)


def ranks(kind, free=FREE, seed=0, rows=None, given=None):
    place = (free.long().cumsum(1) - 1).clamp(min=0)
    rows = torch.arange(len(free)) if rows is None else rows
    found = order_ranks(kind, free, place, CounterRNG(seed, rows), given or {})
    for row, mask in zip(found, free):
        assert sorted(row[mask].tolist()) == list(range(int(mask.sum())))
        assert (row[~mask] >= mask.sum()).all()
    return [row[mask].tolist() for row, mask in zip(found, free)]


def test_left_to_right_and_back_count_free_positions_only():
    assert ranks("left-to-right") == [[0, 1, 2], [0]]
    assert ranks("right-to-left") == [[2, 1, 0], [0]]


def test_a_given_order_is_looked_up_by_the_number_of_positions():
    given = {3: parse_order("3 1 2"), 1: parse_order("1")}
    assert ranks("file", given=given) == [[1, 2, 0], [0]]


def test_an_order_that_is_missing_is_named():
    with pytest.raises(ValueError, match=r"no order of 3 positions \(it has 1, 2\)"):
        ranks("file", given={1: parse_order("1"), 2: parse_order("2 1")})


def test_random_orders_depend_on_seed_and_row_alone():
    free = torch.ones(2, 9, dtype=torch.bool)
    first = ranks("random", free)
    assert first == ranks("random", free)
    assert first[0] != first[1]
    assert first != ranks("random", free, seed=1)
    wide = torch.cat([free, torch.zeros(2, 4, dtype=torch.bool)], 1)
    assert ranks("random", wide) == first
    alone = ranks("random", free[:1], rows=torch.tensor([1]))
    assert alone == first[1:]


def test_random_orders_are_uniform():
    rows = torch.arange(60_000)
    free = torch.ones(len(rows), 3, dtype=torch.bool)
    place = torch.arange(3).expand(len(rows), 3)
    found = order_ranks("random", free, place, CounterRNG(3, rows), {})
    number = found[:, 0] * 9 + found[:, 1] * 3 + found[:, 2]
    counts = torch.bincount(number)
    counts = counts[counts > 0]
    assert len(counts) == 6
    assert (counts - 10_000).abs().max() < 450  # 5 standard errors


def test_inverse_turns_orders_into_ranks_and_back():
    order = torch.tensor([[2, 0, 3, 1]])
    assert inverse(order).tolist() == [[1, 3, 0, 2]]
    assert torch.equal(inverse(inverse(order)), order)


def test_unknown_order():
    with pytest.raises(ValueError, match="--decode-order must be one of"):
        order_ranks("sideways", FREE, PLACE, CounterRNG(0, torch.arange(2)), {})


def test_files_of_orders(tmp_path):
    path = tmp_path / "orders"
    path.write_text("2 1\n\n3 1 2\n")
    found = read_orders(str(path))
    assert {n: r.tolist() for n, r in found.items()} == {2: [1, 0], 3: [1, 2, 0]}


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 2\n1 3\n", "line 2: expected a permutation of 1 to n, such as '3 1 2', found '1 3'"),
        ("one\n", "line 1: expected a permutation"),
        ("1 1\n", "line 1: expected a permutation"),
        ("1 2\n2 1\n", "line 2: a second order of 2 positions"),
    ],
)
def test_bad_files_of_orders(tmp_path, text, message):
    path = tmp_path / "orders"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_orders(str(path))


def test_a_missing_file_of_orders(tmp_path):
    with pytest.raises(UserError, match=r"--decode-order-file .*nowhere: cannot be read"):
        read_orders(str(tmp_path / "nowhere"))
