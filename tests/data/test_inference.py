"""Sources typed by a user are made safe for the model."""

import logging
from typing import Any, List

import pytest
import torch
from helpers import models as make

from fairseq_gmlm.data.inference import SourceDataset


def build(rows: List[List[int]], longest: int = 6, **options: Any) -> List[List[int]]:
    """What the model would get."""
    data = SourceDataset([torch.tensor(r) for r in rows], make.dictionary(), longest, **options)
    assert len(data) == len(rows)
    assert data.sizes.tolist() == [len(data[i]) for i in range(len(data))]
    return [data[i].tolist() for i in range(len(data))]


def test_ordinary_sources_pass() -> None:
    assert build([[5, 6, 2], [7, 2], [2]]) == [[5, 6, 2], [7, 2], [2]]


@pytest.mark.parametrize("special", [0, 1, 2])
def test_special_symbols_spelt_out_become_unknown(special: int) -> None:
    """``<s>``, ``<pad>`` and ``</s>`` in a text would mean a start, padding, an end."""
    assert build([[5, special, 6, 2], [special, 2]]) == [[5, 3, 6, 2], [3, 2]]


def test_a_source_without_an_end_gets_one() -> None:
    assert build([[5, 6]]) == [[5, 6, 2]]
    assert build([[]]) == [[2]]


def test_too_long_sources_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert build([[4, 5, 6, 7, 8, 9, 2]], longest=4) == [[4, 5, 6, 2]]
    assert "a source of 7 tokens is longer than --max-source-positions 4" in caplog.text
    caplog.clear()
    assert build([[4, 5, 6, 2]], longest=4) == [[4, 5, 6, 2]]
    assert not caplog.text


def test_a_start_symbol_counts_towards_the_length() -> None:
    assert build([[4, 5, 6, 2], [7, 2]], longest=4, bos=True) == [[0, 4, 5, 2], [0, 7, 2]]
