"""Adaptive masking: the span rule, and the guard against rules that look at what they hide."""

from collections import Counter
from itertools import combinations
from math import comb
from typing import List

import mask_rule_examples as examples
import padir_support as support
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.masking import MaskPrior
from fairseq_gmlm.masking_rules import (
    apply_rule,
    build_mask_rule,
    check_blind,
    span_positions,
    spans,
)

TARGET = torch.tensor([[0, 4, 5, 6, 5, 7, 2], [0, 6, 5, 2, 1, 1, 1]])
REAL = TARGET != 1
MASKABLE = REAL & (TARGET != 0) & (TARGET != 2)
SOURCE = torch.tensor([[5, 4, 2], [4, 5, 2]])
ORDINARY = torch.arange(4, 16)
PRIOR = MaskPrior()


def rng(rows: int = 2, seed: int = 1) -> CounterRNG:
    return CounterRNG(seed, torch.arange(rows))


def runs(row: List[bool]) -> List[int]:
    """Lengths of the runs of True."""
    found, current = [], 0
    for here in [*row, False]:
        if here:
            current += 1
        elif current:
            found.append(current)
            current = 0
    return found


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=4),
    st.integers(0, 14),
    st.sampled_from([1.0, 2.0, 3.0, 32.0]),
    st.integers(0, 99),
)
def test_spans_are_exact_and_apart(sizes: list, count: int, mean: float, seed: int) -> None:
    width = max(sizes) + 2
    maskable = torch.tensor([[0 < i <= n for i in range(width)] for n in sizes])
    counts = torch.tensor([min(count, n) for n in sizes])
    found = span_positions(maskable, counts, mean, rng(len(sizes), seed))
    assert not bool((found & ~maskable).any())
    assert found.sum(1).tolist() == counts.tolist()
    for row, size in zip(found, sizes):
        hidden = int(row.sum())
        wanted = max(1, int(hidden / mean + 0.5)) if hidden else 0
        if hidden and abs(hidden / mean % 1 - 0.5) > 1e-6:  # a half is rounded to even
            assert len(runs(row.tolist())) == min(wanted, hidden, size - hidden + 1)


def test_every_arrangement_is_equally_likely() -> None:
    """5 hidden of 9 in 2 spans: 4 compositions times 5 over 2 choices of gaps."""
    number = 8000
    maskable = torch.ones(number, 9, dtype=torch.bool)
    found = span_positions(maskable, torch.full((number,), 5), 2.5, rng(number))
    counts = Counter(map(tuple, found.int().tolist()))
    expected = [
        set for set in combinations(range(9), 5) if len(runs([i in set for i in range(9)])) == 2
    ]
    assert len(expected) == 4 * comb(5, 2) == len(counts) == 40
    mean = number / 40
    chi2 = sum((c - mean) ** 2 / mean for c in counts.values())
    assert chi2 < 72.1  # 39 degrees of freedom, p = .001


def test_the_number_hidden_is_the_priors() -> None:
    """Uniform over 1..6, chi-square."""
    number = 6000
    maskable = torch.ones(number, 6, dtype=torch.bool)
    hidden = apply_rule(spans(2.0), maskable.long() + 4, maskable, maskable, PRIOR, rng(number))
    counts = torch.bincount(hidden.sum(1), minlength=7).tolist()
    assert counts[0] == 0
    chi2 = sum((c - 1000) ** 2 / 1000 for c in counts[1:])
    assert chi2 < 20.5  # 5 degrees of freedom, p = .001


def test_padding_and_batch_do_not_matter() -> None:
    left = torch.tensor([[1, 1, 0, 4, 5, 6, 5, 7, 2]])
    real = left != 1
    maskable = real & (left != 0) & (left != 2)
    a = apply_rule(spans(2.0), TARGET, MASKABLE, REAL, PRIOR, rng())
    b = apply_rule(spans(2.0), left, maskable, real, PRIOR, rng(1))
    assert torch.equal(a[0], b[0, 2:])


def test_an_honest_rule_passes() -> None:
    given_ = (examples.beside_a_word, TARGET, MASKABLE, REAL, PRIOR, rng())
    hidden = apply_rule(*given_)
    # places 0, 2, 4 are shown: 4, 6, 7 in the first row; no 5 among them
    assert hidden.int().tolist() == [[0] * 7] * 2
    other = TARGET.clone()
    other[0, 1] = 5
    hidden = apply_rule(examples.beside_a_word, other, MASKABLE, REAL, PRIOR, rng())
    assert hidden.int().tolist() == [[0, 0, 1, 0, 0, 0, 0], [0] * 7]
    check_blind(examples.beside_a_word, other, MASKABLE, REAL, PRIOR, rng(), ORDINARY)


def test_a_rule_may_read_the_source() -> None:
    hidden = apply_rule(examples.by_source, TARGET, MASKABLE, REAL, PRIOR, rng(), SOURCE)
    assert torch.equal(hidden[0], MASKABLE[0]) and not bool(hidden[1].any())


def test_a_rule_that_hides_what_it_has_read_is_refused() -> None:
    with pytest.raises(ValueError, match="hides tokens that it has read"):
        apply_rule(examples.whole_words, TARGET, MASKABLE, REAL, PRIOR, rng())


def test_a_rule_that_looks_behind_the_view_is_found_out() -> None:
    apply_rule(examples.cheating, TARGET, MASKABLE, REAL, PRIOR, rng())
    with pytest.raises(ValueError, match="depends on the tokens that it hides"):
        check_blind(examples.cheating, TARGET, MASKABLE, REAL, PRIOR, rng(), ORDINARY)


def test_a_rule_that_hides_the_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="BOS, EOS or padding"):
        apply_rule(examples.beyond, TARGET, MASKABLE, REAL, PRIOR, rng())


def test_spans_pass_the_check() -> None:
    for seed in range(20):
        check_blind(spans(2.0), TARGET, MASKABLE, REAL, PRIOR, rng(seed=seed), ORDINARY)


def test_rules_by_name() -> None:
    assert build_mask_rule("none", 3.0) is None
    assert build_mask_rule("mask_rule_examples:by_source", 3.0) is examples.by_source
    assert callable(build_mask_rule("spans", 3.0))
    for name, match in (
        ("words", "must be one of none, spans or"),
        ("mask_rule_examples:nothing", "cannot be imported"),
        ("no_such_module:rule", "cannot be imported"),
    ):
        with pytest.raises(ValueError, match=match):
            build_mask_rule(name, 3.0)
    with pytest.raises(ValueError, match="--mask-span-mean"):
        build_mask_rule("spans", 0.5)


def sample() -> dict:
    return {"id": torch.arange(2), "target": TARGET, "net_input": {"src_tokens": SOURCE}}


def hidden_by(rule: str, **options: object) -> Tensor:
    return support.task(mask_rule=rule, **options).corrupt(sample(), 1, 1).noised


def test_the_task_uses_the_rule() -> None:
    assert torch.equal(hidden_by("mask_rule_examples:by_source")[0], MASKABLE[0])
    fixed = {"mask_prior": "fixed", "mask_ratio": 0.6, "mask_span_mean": 3.0}
    assert all(len(runs(row)) == 1 for row in hidden_by("spans", **fixed).tolist())
    assert hidden_by("spans", **fixed).sum(1).tolist() == [3, 1]
    assert torch.equal(hidden_by("none"), support.task().corrupt(sample(), 1, 1).noised)


@pytest.mark.parametrize("rule", ["whole_words", "cheating"])
def test_the_task_finds_bad_rules_in_the_first_batches(rule: str) -> None:
    with pytest.raises(ValueError, match="that it h"):
        hidden_by(f"mask_rule_examples:{rule}")
