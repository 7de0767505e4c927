"""Shares and counts that stay masked."""

import itertools

import pytest
import torch

from fairseq_gmlm.decoding.schedules import SCHEDULES, masked_count, masked_share, row_passes


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("passes", [1, 2, 4, 10])
def test_from_all_to_none_and_never_up(name: str, passes: int) -> None:
    shares = [masked_share(name, done, passes) for done in range(passes + 1)]
    assert shares[0] == 1.0
    assert shares[-1] == pytest.approx(0.0, abs=1e-12)
    assert all(a > b for a, b in itertools.pairwise(shares))


def test_values_by_hand() -> None:
    assert [masked_share("linear", d, 4) for d in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert masked_share("cosine", 1, 3) == pytest.approx(3**0.5 / 2)
    assert masked_share("cosine", 1, 2) == pytest.approx(0.5**0.5)
    assert masked_share("cosine", 1, 2) > masked_share("linear", 1, 2)


def test_an_unknown_schedule_is_named() -> None:
    with pytest.raises(ValueError, match=r"--mask-schedule must be one of .*not 'square'"):
        masked_share("square", 1, 2)


def test_counts_are_rounded_down_per_row() -> None:
    free = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [False] * 5])
    assert masked_count(free, 0.5).tolist() == [2, 1, 0]
    assert masked_count(free, 1.0).tolist() == [5, 3, 0]
    assert masked_count(free, 0.0).tolist() == [0, 0, 0]


def test_counts_are_those_of_fairseqs_cmlm() -> None:
    """Its arithmetic in float32, for every length and pass (cmlm_transformer.py)."""
    for passes in range(1, 12):
        lengths = torch.arange(3, 80)
        free = torch.arange(80)[None] < lengths[:, None]
        for done in range(1, passes):
            stock = ((lengths + 2).float() - 2) * (1 - done / passes)
            ours = masked_count(free, masked_share("linear", done, passes))
            assert torch.equal(ours, stock.long())


def test_passes_by_length() -> None:
    free = torch.arange(20)[None] < torch.tensor([0, 1, 5, 15, 20])[:, None]
    assert row_passes(free, 10, 0.2).tolist() == [1, 1, 1, 3, 4]
    assert row_passes(free, 3, 0.5).tolist() == [1, 1, 3, 3, 3]
    assert row_passes(free, 10, 0).tolist() == [10] * 5
