"""Sources that a model has no positions for: an empty line, counted, and in nobody's clock."""

from types import SimpleNamespace

import pytest

from fairseq_gmlm.comparison.measuring import by_length, latencies, translate_split
from fairseq_gmlm.comparison.system import Output, SplitSystem
from fairseq_gmlm.errors import UserError


class Counting(SplitSystem):
    """Answers with the source's size, and remembers what it was given."""

    def __init__(self, sizes, longest):
        self.spec, self.split, self.longest_source = SimpleNamespace(name="x"), "test", longest
        self.dataset = type("Sizes", (), {"src_sizes": sizes, "__len__": lambda _: len(sizes)})()
        self.read = []

    def collate(self, indices):
        return {"id": indices}

    def translate(self, batch):
        self.read += batch["id"]
        return batch["id"]

    def outputs(self, batch, hypotheses):
        return {i: Output([str(self.dataset.src_sizes[i])], 1) for i in batch["id"]}


def test_they_are_empty_and_the_others_done_in_order():
    system = Counting([5, 900, 3, 4], longest=10)
    outputs, _ = translate_split(system, 2, lambda name: None)
    assert [output.tokens for output in outputs] == [["5"], [], ["3"], ["4"]]
    assert outputs[1].passes == 0
    assert system.read == [2, 3, 0]


def test_all_systems_are_timed_on_what_all_can_read():
    short, long = Counting([5, 9, 3], longest=6), Counting([5, 9, 3], longest=None)
    assert by_length([long]) == [2, 0, 1]
    assert by_length([short, long]) == by_length([long, short]) == [2, 0]
    chosen, times = latencies([short, long], 10, lambda name: None)
    assert chosen == [0, 2] and [len(row) for row in times] == [2, 2]
    assert 1 not in long.read


def test_nothing_left_is_said():
    with pytest.raises(UserError, match="'split: test': every source is longer than"):
        by_length([Counting([5, 9], longest=2)])
