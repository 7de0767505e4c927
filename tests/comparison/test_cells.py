"""Finished cells, and what names them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fairseq_gmlm.comparison.cells import Cells, digest_of
from fairseq_gmlm.comparison.checkpoint_facts import checkpoint_facts
from fairseq_gmlm.comparison.fingerprints import content_of, decoding_key, timing_key
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.errors import UserError


def test_cells_come_back_by_content(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "new" / "cells")
    key = {"b": [1, 2.5], "a": "ä"}
    assert cells.get("times", key) is None
    cells.put("times", key, {"seconds": [0.1 + 0.2]})
    again = Cells(tmp_path / "new" / "cells")
    assert again.get("times", {"a": "ä", "b": [1, 2.5]}) == {"seconds": [0.1 + 0.2]}
    assert again.get("other", key) is None
    assert again.get("times", {**key, "a": "a"}) is None


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    cells.put("x", {"k": 1}, 2)
    (path,) = tmp_path.iterdir()
    path.write_text("{", "utf-8")
    with pytest.raises(UserError, match=path.name):
        cells.get("x", {"k": 1})


def test_without_a_folder_nothing_is_kept() -> None:
    cells = Cells(None)
    cells.put("x", {"k": 1}, 2)
    assert cells.get("x", {"k": 1}) is None


def test_keys_change_with_what_decides_a_result(tiny, tiny_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(tiny["gmlm_transformer"].read_bytes())
    row = SystemSpec("a", str(path), {"iter_decode_max_iter": 3})
    spec = ComparisonSpec(str(tiny_data), [row])

    def key(row: SystemSpec = row, spec: ComparisonSpec = spec) -> str:
        return digest_of(decoding_key(spec, spec.data, row, 0))

    plain = key()
    assert key(replace(row, name="b")) == plain
    assert key(spec=replace(spec, repeats=3, threads=2)) == plain  # of the clock alone
    others = [
        key(replace(row, options={"iter_decode_max_iter": 4})),
        key(replace(row, reranker=str(tiny["transformer"]))),
        key(spec=replace(spec, split="valid")),
        key(spec=replace(spec, batch_size=8)),
    ]
    state = torch.load(path, weights_only=False)
    state["model"]["decoder.embed_tokens.weight"][7] += 1
    torch.save(state, path)
    others.append(key())
    assert len({plain, *others}) == 6


def test_times_depend_on_threads_but_not_on_the_batches_of_quality(tiny, tiny_data) -> None:
    row = SystemSpec("a", str(tiny["transformer"]))
    spec = ComparisonSpec(str(tiny_data), [row])

    def key(spec: ComparisonSpec) -> str:
        return digest_of(timing_key(decoding_key(spec, spec.data, row, 0), spec, sentences=5))

    assert key(spec) == key(replace(spec, batch_size=8))
    assert key(spec) != key(replace(spec, threads=2))


def test_content_not_name_or_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"x")
    second.write_bytes(b"x")
    os.utime(second, (1, 1))
    assert content_of(str(first)) == content_of(str(second))
    second.write_bytes(b"y")
    assert content_of(str(first)) != content_of(str(second))


def test_checkpoints_say_what_they_know(tmp_path: Path) -> None:
    weight = torch.zeros(3, 4)
    half = torch.zeros(5, dtype=torch.float16)
    state = {
        "model": {"a": weight, "tied": weight, "h": half},
        "cfg": {"criterion": {"_name": "gmlm_loss", "num_train_stages": 2}},
        "optimizer_history": [{"num_updates": 12}],
        "extra_state": {"previous_training_time": 3.5},
    }
    torch.save(state, tmp_path / "full.pt")
    assert checkpoint_facts(tmp_path / "full.pt") == {
        "bytes": 3 * 4 * 4 + 5 * 2,
        "updates": 12,
        "seconds": 3.5,
        "stages": 2,
    }
    torch.save({"model": {"a": weight}}, tmp_path / "bare.pt")
    bare = checkpoint_facts(tmp_path / "bare.pt")
    assert bare == {"bytes": 48, "updates": None, "seconds": None, "stages": None}
