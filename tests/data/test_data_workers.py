"""fairseq_gmlm.data.workers: order, and workers that die."""

import os
import signal

import pytest

from fairseq_gmlm.data.workers import ordered_map
from fairseq_gmlm.errors import UserError


def make_scale(factor):
    return lambda item: item * factor


def make_suicide():
    return lambda item: os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers):
    assert list(ordered_map(make_scale, (3,), range(50), workers)) == list(range(0, 150, 3))


def test_it_does_not_read_far_ahead():
    read = []

    def items():
        for number in range(1000):
            read.append(number)
            yield number

    results = ordered_map(make_scale, (1,), items(), 2)
    next(results)
    assert len(read) <= 6
    results.close()


def test_a_killed_worker_is_reported_and_does_not_hang():
    with pytest.raises(UserError, match="a worker process was killed"):
        list(ordered_map(make_suicide, (), range(5), 2))
