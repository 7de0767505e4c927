"""Draws are functions of their coordinates alone, uniform, and independent of each other."""

import torch

from fairseq_gmlm.counter_rng import CounterRNG, mix, row_keys


def _splitmix(x: int) -> int:
    """splitmix64's output function on Python integers, as published."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def test_mix_is_splitmix64() -> None:
    values = [0, 1, 2, 12345, (1 << 62) + 7]
    mixed = mix(torch.tensor(values)).tolist()
    assert [m & ((1 << 64) - 1) for m in mixed] == [_splitmix(v) for v in values]
    # The published first output for seed 0.
    assert mixed[0] & ((1 << 64) - 1) == 0xE220A8397B1DCDAF


def test_a_row_has_the_same_draws_in_any_batch() -> None:
    rows = torch.arange(50)
    together = CounterRNG((3, 7), rows)
    columns = torch.arange(9)
    for row in (0, 17, 49):
        alone = CounterRNG((3, 7), rows[row : row + 1])
        assert torch.equal(alone.per_row(2)[0], together.per_row(2)[row])
        assert torch.equal(
            alone.per_position(2, columns)[0], together.per_position(2, columns)[row]
        )


def test_columns_select_draws() -> None:
    rng = CounterRNG(1, torch.arange(4))
    whole = rng.per_position(5, torch.arange(6))
    some = rng.per_position(5, torch.tensor([4, 1]))
    assert torch.equal(some, whole[:, [4, 1]])


def test_draws_are_in_the_unit_interval_and_uniform() -> None:
    draws = CounterRNG(0, torch.arange(400)).per_position(1, torch.arange(500)).flatten()
    assert draws.min() >= 0 and draws.max() < 1
    counts = torch.histc(draws, bins=100, min=0, max=1)
    expected = draws.numel() / 100
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 149  # 99 degrees of freedom: exceeded once in a thousand


def test_seeds_rows_columns_and_streams_are_uncorrelated() -> None:
    rows, columns = torch.arange(200), torch.arange(201)
    base = CounterRNG((1, 5), rows).per_position(1, columns)
    others = {
        "stream": CounterRNG((1, 5), rows).per_position(2, columns),
        "first seed": CounterRNG((2, 5), rows).per_position(1, columns),
        "second seed": CounterRNG((1, 6), rows).per_position(1, columns),
        "swapped seeds": CounterRNG((5, 1), rows).per_position(1, columns),
        "next row": CounterRNG((1, 5), rows + 1).per_position(1, columns),
        "next column": CounterRNG((1, 5), rows).per_position(1, columns + 1),
    }
    # "next row" and "next column" overlap base after a shift, but must not match in place.
    for name, other in others.items():
        correlation = torch.corrcoef(torch.stack([base.flatten(), other.flatten()]))[0, 1]
        assert abs(correlation) < 0.02, name  # four standard errors at 40,200 pairs


def test_row_keys_ignore_padding_on_either_side() -> None:
    tokens = torch.tensor([[5, 6, 7, 1, 1], [1, 1, 5, 6, 7], [5, 6, 7, 1, 1]])
    keys = row_keys(tokens, tokens.ne(1))
    assert keys[0] == keys[1] == keys[2] == row_keys(tokens[:1, :3], tokens[:1, :3].ne(1))[0]


def test_row_keys_tell_orders_and_lengths_apart() -> None:
    tokens = torch.tensor([[5, 6, 7], [7, 6, 5], [5, 7, 6], [5, 6, 1], [6, 5, 1], [5, 5, 1]])
    assert len(set(row_keys(tokens, tokens.ne(1)).tolist())) == len(tokens)


def test_an_empty_row_has_a_key() -> None:
    tokens = torch.ones(2, 3, dtype=torch.long)
    assert row_keys(tokens, tokens.ne(1)).tolist() == [0, 0]
