"""The benchmark of distillation with a tiny random teacher: both engines, the same sentences."""

import functools
import json
from pathlib import Path

import distill
import pytest
import random_models


def test_both_engines_translate_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    tiny = random_models.Size(1, 1, 32, 32, 2, 40)
    monkeypatch.setattr(random_models, "Size", lambda *_: tiny)
    # Random weights are full of near ties, which int8 decides otherwise, on each CPU in its own way.
    exact = functools.partial(distill.build_engine, compute_type="float32")
    monkeypatch.setattr(distill, "build_engine", exact)
    path = tmp_path / "distill.json"
    distill.main(["--sentences", "12", "--rounds", "2", "--beam", "2", "--json", str(path)])
    rows = {row["engine"]: row for row in json.loads(path.read_text())}
    assert set(rows) == {"ctranslate2", "fairseq"}
    assert rows["fairseq"]["equal"] == 1.0
    assert rows["ctranslate2"]["equal"] > 0.5
    assert all(row["sentences_per_second"] > 0 for row in rows.values())
    (bar,) = json.loads((tmp_path / "distill.bars.json").read_text())
    assert bar["at_least"] == 5.0 and bar["reached"] > 0


def test_a_teacher_needs_its_data(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--path and --data go together"):
        distill.main(["--path", str(tmp_path / "teacher.pt")])
