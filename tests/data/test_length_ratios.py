"""fairseq_gmlm.data.length_ratios."""

import statistics

import pytest

from fairseq_gmlm.data.length_ratios import LengthRatios


def test_running_statistics_equal_those_of_the_list():
    pairs = [(3, 2), (5, 5), (0, 4), (9, 3), (7, 0)]
    ratios = LengthRatios()
    for pair in pairs:
        ratios.add(*pair)
    values = [a / b for a, b in pairs if b]
    assert ratios.summary() == {
        "corpus": 17 / 14,
        "mean": pytest.approx(statistics.mean(values)),
        "std": pytest.approx(statistics.pstdev(values)),
        "min": 0.0,
        "max": 3.0,
    }


def test_nothing_counted():
    assert LengthRatios().summary() is None
