"""Rejecters against hand-worked examples and properties."""

import math
from argparse import Namespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.decoding.rejecters import (
    REJECTERS,
    build_rejecter,
    constant,
    learned,
    linear_schedule,
    passthrough,
    stuttering,
)

# BOS a a b b EOS and BOS c EOS pad pad pad
DRAFT = torch.tensor([[0, 5, 5, 6, 6, 2], [0, 7, 2, 1, 1, 1]])
FREE = torch.tensor([[0, 1, 1, 1, 1, 0], [0, 1, 0, 0, 0, 0]]).bool()
BEST = torch.tensor([[0.0, -0.3, -0.1, -0.4, -0.2, 0.0], [0.0, -0.5, 0.0, 0.0, 0.0, 0.0]])


def places(mask: torch.Tensor) -> list:
    """Column numbers of the True places of each row."""
    return [row.nonzero().flatten().tolist() for row in mask]


def test_passthrough_keeps_everything() -> None:
    assert places(passthrough(DRAFT, BEST, FREE, None, 0, 4)) == [[], []]


def test_stutter_rejects_the_second_of_two() -> None:
    assert places(stuttering(DRAFT, BEST, FREE, None, 0, 4)) == [[2, 4], []]


@pytest.mark.parametrize(
    "step,expected",
    [
        (0, [[1, 3, 4], [1]]),  # 4 * 3 // 4 = 3; 1 * 3 // 4 = 0, but at least one
        (1, [[1, 3], [1]]),
        (2, [[3], [1]]),
        (3, [[], []]),  # the last pass: nothing, also with one pass in all (quirk 7)
    ],
)
def test_linear_schedule_by_hand(step: int, expected: list) -> None:
    assert places(linear_schedule(DRAFT, BEST, FREE, None, step, 4)) == expected


def test_linear_schedule_of_a_single_pass_rejects_nothing() -> None:
    assert places(linear_schedule(DRAFT, BEST, FREE, None, 0, 1)) == [[], []]


def test_constant_count_by_hand() -> None:
    assert places(constant(count=2)(DRAFT, BEST, FREE, None, 0, 4)) == [[1, 3], [1]]


@pytest.mark.parametrize("percent,first", [(50.0, [1, 3]), (30.0, [3]), (1.0, [3])])
def test_constant_percent_by_hand(percent: float, first: list) -> None:
    rejected = constant(percent=percent)(DRAFT, BEST, FREE, None, 0, 4)
    assert places(rejected) == [first, [1]]


def test_learned_rejects_where_the_head_is_not_for_it() -> None:
    approval = torch.tensor([[-9.0, 0.5, 0.0, -1.0, 2.0, -9.0], [0.0, -0.1, 0.0, 0.0, 0.0, 0.0]])
    assert places(learned(DRAFT, BEST, FREE, approval, 0, 4)) == [[2, 3], [1]]


def test_learned_without_a_head_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="--learned-rejecter"):
        learned(DRAFT, BEST, FREE, None, 0, 4)


def test_ties_are_broken_and_not_all_rejected() -> None:
    equal = torch.full_like(BEST, -1.0)
    assert places(constant(count=2)(DRAFT, equal, FREE, None, 0, 4)) == [[1, 2], [1]]


@pytest.mark.parametrize(
    "values,match",
    [
        ({}, "exactly one"),
        ({"count": 1, "percent": 2.0}, "exactly one"),
        ({"count": 0}, "--bottom-k"),
        ({"percent": 0.0}, "--bottom-percent"),
        ({"percent": 101.0}, "--bottom-percent"),
    ],
)
def test_constant_refuses(values: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        constant(**values)


def test_every_name_builds_and_other_options_are_refused() -> None:
    for name in REJECTERS:
        bottom = 1 if name == "constant" else None
        assert callable(
            build_rejecter(Namespace(rejecter=name, bottom_k=bottom, bottom_percent=None))
        )
    with pytest.raises(ValueError, match="belong to --rejecter constant"):
        build_rejecter(Namespace(rejecter="stutter", bottom_k=3, bottom_percent=None))
    with pytest.raises(ValueError, match="must be one of"):
        build_rejecter(Namespace(rejecter="none", bottom_k=None, bottom_percent=None))


@st.composite
def batches(draw: st.DrawFn):
    """Drafts with BOS in front, EOS and padding behind."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    width = max(sizes) + 2
    free = torch.tensor([[0 < i <= size for i in range(width)] for size in sizes])
    seed = draw(st.integers(0, 1000))
    generator = torch.Generator().manual_seed(seed)
    draft = torch.randint(4, 7, (len(sizes), width), generator=generator)
    best = -torch.rand(len(sizes), width, generator=generator)
    approval = torch.randn(len(sizes), width, generator=generator)
    return draft, best, free, approval


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(1, 6), st.integers(0, 5), st.integers(1, 9), st.floats(0.5, 100.0))
def test_properties(batch, passes: int, step: int, count: int, percent: float) -> None:
    draft, best, free, approval = batch
    step = min(step, passes - 1)
    total = free.sum(1).tolist()
    cases = [
        (passthrough, [0] * len(total)),
        (linear_schedule, None),
        (constant(count=count), [min(count, n) for n in total]),
        (constant(percent=percent), None),
        (stuttering, None),
        (learned, None),
    ]
    for rejecter, sizes in cases:
        rejected = rejecter(draft, best, free, approval, step, passes)
        assert not bool((rejected & ~free).any())  # specials and padding untouched
        if rejecter is linear_schedule:
            last = step + 1 == passes
            sizes = [
                min(n, max(0 if last else 1, n * (passes - step - 1) // passes)) for n in total
            ]
        if sizes is not None:
            assert rejected.sum(1).tolist() == sizes
        for row in range(len(total)):
            one = rejecter(*(x[row : row + 1] for x in (draft, best, free, approval)), step, passes)
            assert torch.equal(one[0], rejected[row])
    for n, got in zip(total, constant(percent=percent)(draft, best, free, None, 0, 1).sum(1)):
        assert int(got) == min(n, max(1, math.floor(n * percent / 100 + 1e-9)))


@settings(max_examples=30, deadline=None)
@given(batches(), st.integers(1, 5))
def test_what_is_rejected_is_never_surer_than_what_is_kept(batch, count: int) -> None:
    draft, best, free, _ = batch
    rejected = constant(count=count)(draft, best, free, None, 0, 1)
    for row in range(free.size(0)):
        inside, outside = best[row][rejected[row]], best[row][free[row] & ~rejected[row]]
        assert not len(inside) or not len(outside) or float(inside.max()) <= float(outside.min())
