"""Freed memory goes back to the system now and then."""

import resource
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from helpers import models as make

from fairseq_gmlm.decoding import memory
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.memory import Trimmer
from fairseq_gmlm.decoding.options import DecodingOptions

CPU = torch.device("cpu")


def test_not_more_often_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = [100.0], []
    monkeypatch.setattr(memory.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(memory, "_malloc_trim", lambda: calls.append)
    trimmer = Trimmer(seconds=5)
    for now, done in ((101, False), (105, True), (109.9, False), (110, True), (110.1, False)):
        clock[0] = now
        assert trimmer.after_batch(CPU) is done
    assert calls == [0, 0]
    clock[0] = 1000
    assert not trimmer.after_batch(torch.device("cuda"))


def test_another_c_library_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    assert not Trimmer(seconds=0).after_batch(CPU)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_holes_in_the_heap_are_given_back() -> None:
    if memory._malloc_trim() is None:
        pytest.skip("no glibc")

    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20

    # Small blocks lie in the heap; every hundredth one is kept, so that it cannot shrink.
    blocks = [bytes(60_000) for _ in range(2000)]
    kept = blocks[::100]
    full = resident()
    del blocks
    assert Trimmer(seconds=0).after_batch(CPU)
    assert resident() < full - 60 and len(kept) == 20


def test_the_generator_asks_after_each_batch() -> None:
    model = make.model()
    generator = GMLMGenerator([model], DecodingOptions.of(DecodingConfig(), Namespace()))
    asked = []
    generator._trimmer.after_batch = asked.append
    generator.generate([model], make.sample(make.sources([4, 2])))
    assert [device.type for device in asked] == ["cpu"]
