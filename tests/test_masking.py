"""Corruption: how many positions, which ones, and what stands there."""

import math
from collections import Counter
from itertools import combinations
from typing import List, Optional, Tuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.masking import (
    DRAWN,
    LOSS_WEIGHTS,
    Corruption,
    MaskPrior,
    Replacement,
    columns,
    corrupt,
    loss_weights,
    mask_symbols,
    pick_positions,
    random_tokens,
)

BOS, PAD, EOS, MASK = 0, 1, 2, 99
ORDINARY = torch.arange(4, 20)
MASK_ONLY = Replacement()


def target(lengths: List[int], left: bool = False) -> Tensor:
    """BOS, words 4, 5, 6, ..., EOS in each row; padded on the right or the left."""
    width = max(lengths) + 2
    rows = []
    for n in lengths:
        row = [BOS, *range(4, 4 + n), EOS]
        pads = [PAD] * (width - len(row))
        rows.append(pads + row if left else row + pads)
    return torch.tensor(rows)


def run(
    tokens: Tensor,
    prior: Optional[MaskPrior] = None,
    replacement: Replacement = MASK_ONLY,
    seed: int = 0,
    ids: Optional[Tensor] = None,
    mask_ids: Optional[Tensor] = None,
) -> Tuple[Corruption, Tensor]:
    """Corrupt as the task does; also the maskable positions."""
    real = tokens.ne(PAD)
    maskable = real & tokens.ne(BOS) & tokens.ne(EOS)
    rows = torch.arange(tokens.size(0)) if ids is None else ids
    rng = CounterRNG(seed, rows)
    mask_ids = torch.tensor([MASK]) if mask_ids is None else mask_ids
    prior = prior or MaskPrior()
    return corrupt(tokens, maskable, real, prior, replacement, mask_ids, ORDINARY, rng), maskable


def chi_square(counts: List[int], expected: List[float]) -> float:
    """Pearson's statistic."""
    return sum((c - e) ** 2 / e for c, e in zip(counts, expected))


@pytest.mark.parametrize("ratio", [0.1, 0.15, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 13])
def test_fixed_prior_masks_exactly_the_rounded_share(ratio: float, length: int) -> None:
    out, _ = run(target([length] * 8), MaskPrior("fixed", ratio))
    expected = max(1, math.floor(length * ratio + 0.5 + 1e-6))  # halves go up
    assert out.masked.sum(1).tolist() == [expected] * 8


def test_fixed_counts_by_hand() -> None:
    out, _ = run(target([1, 2, 4, 10, 20]), MaskPrior("fixed", 0.15))
    # .15, .30, .60 round to 0, 0, 1 (at least one); 1.5 to 2; 3.
    assert out.masked.sum(1).tolist() == [1, 1, 1, 2, 3]


@pytest.mark.parametrize(("ratio", "most"), [(1.0, 8), (0.5, 4), (0.3, 2)])
def test_uniform_prior_draws_every_count_alike(ratio: float, most: int) -> None:
    rows = 8000
    out, _ = run(target([8] * rows), MaskPrior("uniform", ratio), seed=3)
    found = Counter(out.masked.sum(1).tolist())
    assert set(found) == set(range(1, most + 1))
    # 7 degrees of freedom at most: 24.3 is exceeded once in a thousand.
    assert chi_square([found[k] for k in range(1, most + 1)], [rows / most] * most) < 24.4


def test_iid_uniform_prior_draws_every_count_alike_from_zero() -> None:
    rows = 8000
    out, _ = run(target([7] * rows), MaskPrior("uniform", 1.0, "iid"), seed=4)
    found = Counter(out.masked.sum(1).tolist())
    assert set(found) == set(range(8))  # u-PMLM: |M| is uniform on 0..N
    assert chi_square([found[k] for k in range(8)], [rows / 8] * 8) < 24.4


def test_iid_fixed_prior_is_binomial() -> None:
    rows, n, p = 8000, 4, 0.3
    out, _ = run(target([n] * rows), MaskPrior("fixed", p, "iid"), seed=5)
    found = Counter(out.masked.sum(1).tolist())
    binomial = [0.2401, 0.4116, 0.2646, 0.0756, 0.0081]
    assert chi_square([found[k] for k in range(5)], [rows * b for b in binomial]) < 18.5


@pytest.mark.parametrize("count", ["exact", "iid"])
def test_given_its_size_every_subset_is_equally_likely(count: str) -> None:
    rows = 12000
    out, _ = run(target([4] * rows), MaskPrior("uniform", 1.0, count), seed=6)
    found = Counter(tuple(row.nonzero().flatten().tolist()) for row in out.masked[:, 1:5])
    for size in range(1, 5):
        subsets = list(combinations(range(4), size))
        total = sum(found[s] for s in subsets)
        assert total > rows / 6
        statistic = chi_square([found[s] for s in subsets], [total / len(subsets)] * len(subsets))
        assert statistic < 20.6, size  # 5 degrees of freedom at most


def test_shares_of_kept_random_and_masked_tokens() -> None:
    tokens = target([10] * 4000)
    out, maskable = run(tokens, MaskPrior("fixed", 1.0), Replacement(0.1, 0.2), seed=7)
    total = int(maskable.sum())
    assert torch.equal(out.noised, maskable)
    assert out.masked.sum() / total == pytest.approx(0.7, abs=0.01)
    changed = maskable & ~out.masked & out.tokens.ne(tokens)
    # A random token is the original by chance once in len(ORDINARY).
    assert changed.sum() / total == pytest.approx(0.2 * (1 - 1 / len(ORDINARY)), abs=0.01)
    values = out.tokens[changed]
    assert torch.isin(values, ORDINARY).all()


def test_random_tokens_are_uniform_over_ordinary_ids() -> None:
    place = torch.arange(100).expand(400, -1)
    drawn = random_tokens(ORDINARY, CounterRNG(0, torch.arange(400)), place, 4)
    found = Counter(drawn.flatten().tolist())
    assert set(found) == set(ORDINARY.tolist())
    assert chi_square(list(found.values()), [40000 / 16] * 16) < 37.7  # 15 degrees of freedom


def test_only_random_tokens_when_random_is_one() -> None:
    out, maskable = run(target([12] * 50), MaskPrior("fixed", 1.0), Replacement(0.0, 1.0))
    assert not out.masked.any()
    assert torch.equal(out.noised, maskable)
    assert not out.tokens.eq(MASK).any()


def test_drawn_probabilities_differ_between_sequences_and_average_a_quarter() -> None:
    out, _ = run(target([40] * 2000), MaskPrior("fixed", 1.0), Replacement(DRAWN, 0.0), seed=8)
    kept = (out.noised & ~out.masked).sum(1) / 40.0
    assert kept.mean() == pytest.approx(0.25, abs=0.01)
    # U[0, .5) has deviation .144; a fixed probability of .25 would give .068.
    assert kept.std() == pytest.approx((1 / 48 + (0.25 - 1 / 12) / 40) ** 0.5, abs=0.01)
    assert kept.max() <= 0.5 + 0.3


def test_keep_and_random_drawn_apart() -> None:
    tokens = target([40] * 2000)
    out, _ = run(tokens, MaskPrior("fixed", 1.0), Replacement(DRAWN, DRAWN), seed=9)
    kept = (out.noised & ~out.masked & out.tokens.eq(tokens)).sum(1) / 40.0
    rand = (out.noised & ~out.masked & out.tokens.ne(tokens)).sum(1) / 40.0
    assert rand.mean() == pytest.approx(0.25 * 15 / 16, abs=0.02)
    assert abs(torch.corrcoef(torch.stack([kept, rand]))[0, 1]) < 0.15


def test_per_position_masks_count_from_the_first_word() -> None:
    mask_ids = torch.arange(200, 206)
    for left in (False, True):
        out, maskable = run(target([6, 3], left), MaskPrior("fixed", 1.0), mask_ids=mask_ids)
        assert out.tokens[0][maskable[0]].tolist() == [200, 201, 202, 203, 204, 205]
        assert out.tokens[1][maskable[1]].tolist() == [200, 201, 202]


def test_too_few_per_position_masks_say_what_to_raise() -> None:
    with pytest.raises(ValueError, match=r"--mask-range 2 has no mask for position 2; raise it"):
        mask_symbols(torch.tensor([50, 51]), torch.tensor([[0, 1, 2]]))


def test_left_and_right_padding_get_the_same_noise() -> None:
    lengths = [1, 5, 9, 3]
    settings_ = (MaskPrior(), Replacement(0.2, 0.3))
    right, _ = run(target(lengths), *settings_)
    left, _ = run(target(lengths, left=True), *settings_)
    for row, n in enumerate(lengths):
        assert right.tokens[row, : n + 2].tolist() == left.tokens[row, -(n + 2) :].tolist()
        assert right.noised[row, : n + 2].tolist() == left.noised[row, -(n + 2) :].tolist()


def test_a_sentence_is_corrupted_alike_alone_and_in_a_batch() -> None:
    lengths = [2, 9, 4, 7]
    ids = torch.tensor([31, 4, 15, 92])
    together, _ = run(target(lengths), MaskPrior(), Replacement(0.1, 0.1), ids=ids)
    for row, n in enumerate(lengths):
        alone, _ = run(target([n]), MaskPrior(), Replacement(0.1, 0.1), ids=ids[row : row + 1])
        assert torch.equal(alone.tokens[0], together.tokens[row, : n + 2])
        assert torch.equal(alone.masked[0], together.masked[row, : n + 2])


def test_rows_without_words_are_left_alone() -> None:
    for prior in (MaskPrior(), MaskPrior("fixed", 0.5), MaskPrior("uniform", 1.0, "iid")):
        tokens = target([0, 3])
        out, _ = run(tokens, prior)
        assert torch.equal(out.tokens[0], tokens[0])
        assert not out.noised[0].any()


def test_columns_count_real_tokens() -> None:
    real = torch.tensor([[True, True, True, False], [False, False, True, True]])
    assert columns(real).tolist() == [[0, 1, 2, 2], [0, 0, 0, 1]]


def test_positions_picked_by_another_rule_replace_the_prior() -> None:
    tokens = target([4])
    maskable = tokens.gt(3)
    noised = torch.tensor([[False, True, False, True, False, False]])
    out = corrupt(
        tokens, maskable, tokens.ne(PAD), MaskPrior(), MASK_ONLY, torch.tensor([MASK]), None,
        CounterRNG(0, torch.zeros(1, dtype=torch.long)), noised,
    )  # fmt: skip
    assert out.tokens.tolist() == [[BOS, MASK, 5, MASK, 7, EOS]]


def test_random_replacement_without_ordinary_ids_is_refused() -> None:
    tokens = target([4])
    with pytest.raises(ValueError, match="ids of ordinary tokens"):
        corrupt(
            tokens, tokens.gt(3), tokens.ne(PAD), MaskPrior(), Replacement(0.0, 0.5),
            torch.tensor([MASK]), None, CounterRNG(0, torch.zeros(1, dtype=torch.long)),
        )  # fmt: skip


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    kind=st.sampled_from(["uniform", "fixed"]),
    count=st.sampled_from(["exact", "iid"]),
    ratio=st.floats(0.01, 1.0),
    keep=st.sampled_from([0.0, 0.1, 0.5, DRAWN]),
    rand=st.sampled_from([0.0, 0.1, 0.5, DRAWN]),
    left=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_what_always_holds(
    lengths: List[int],
    kind: str,
    count: str,
    ratio: float,
    keep: float,
    rand: float,
    left: bool,
    seed: int,
) -> None:
    tokens = target(lengths, left)
    out, maskable = run(tokens, MaskPrior(kind, ratio, count), Replacement(keep, rand), seed)
    assert not (out.noised & ~maskable).any()
    assert not (out.masked & ~out.noised).any()
    # Only noised positions change; masks stand exactly where ``masked`` says.
    assert torch.equal(out.tokens[~out.noised], tokens[~out.noised])
    assert torch.equal(out.tokens.eq(MASK), out.masked)
    words = maskable.sum(1)
    noised = out.noised.sum(1)
    if count == "exact":
        assert torch.equal(noised > 0, words > 0)
        most = (words * ratio + 0.5 + 1e-3).floor().clamp(min=1)
        assert (noised <= most).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaskPrior("other"), "mask prior must be one of"),
        (lambda: MaskPrior(count="some"), "mask count must be one of"),
        (lambda: MaskPrior(ratio=0.0), r"mask ratio must be in \(0, 1\], not 0.0"),
        (lambda: MaskPrior(ratio=1.5), r"not 1.5"),
        (lambda: Replacement(keep=-0.5), r"keep probability must be in \[0, 1\] or -1"),
        (lambda: Replacement(random=2.0), "random probability"),
        (lambda: Replacement(0.6, 0.6), r"keep \+ random must be at most 1"),
        (lambda: Replacement(DRAWN, 0.6), "at most .5"),
    ],
)
def test_values_out_of_range_are_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_loss_weights_by_hand() -> None:
    tokens = target([3])
    maskable = tokens.gt(3)
    noised = torch.tensor([[False, True, True, False, False]])
    masked = torch.tensor([[False, True, False, False, False]])
    corruption = Corruption(tokens, noised, masked)
    assert torch.equal(loss_weights("masked", corruption, maskable), masked)
    assert torch.equal(loss_weights("noised", corruption, maskable), noised)
    assert torch.equal(loss_weights("all", corruption, maskable), maskable)
    assert set(LOSS_WEIGHTS) == {"masked", "noised", "all"}
    with pytest.raises(ValueError, match="loss weights must be one of"):
        loss_weights("some", corruption, maskable)


def test_ties_between_scores_do_not_change_the_count() -> None:
    class Constant(CounterRNG):
        """Every position draws the same number."""

        def per_position(self, stream: int, columns: Tensor) -> Tensor:
            return torch.full((self.rows.size(0), columns.size(-1)), 0.25)

    maskable = torch.tensor([[False, True, True, True, False], [True, True, False, False, False]])
    rng = Constant(0, torch.arange(2))
    picked = pick_positions(maskable, MaskPrior("fixed", 0.5), rng, columns(maskable))
    assert picked.sum(1).tolist() == [2, 1]
    assert not (picked & ~maskable).any()
