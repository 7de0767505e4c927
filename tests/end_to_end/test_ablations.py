"""The ablation grid: run, resumed, reported."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, List

import pytest
from helpers.commands import PACKAGE

from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.errors import UserError
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig

ROOT = PACKAGE.parent
EXAMPLE = ROOT / "examples" / "ablations"
MARKERS = "before\n<!-- ablations: begin -->\nold\n<!-- ablations: end -->\nafter\n"


def run(*args: Any) -> subprocess.CompletedProcess:
    line = [sys.executable, str(EXAMPLE / "run.py"), *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        line, capture_output=True, encoding="utf-8", env=environment, cwd=ROOT, timeout=280
    )


@pytest.fixture(scope="module")
def data(toy_bin: Path, toy_raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy data-bin with the raw references that ``prepare`` would leave in it."""
    folder = tmp_path_factory.mktemp("ablations") / "bin"
    shutil.copytree(toy_bin, folder)
    shutil.copy(toy_raw / "test.b", folder / "test.raw.b")
    return folder


@pytest.mark.slow
def test_the_smoke_grid(data: Path, tmp_path: Path) -> None:
    page, output = tmp_path / "page.md", tmp_path / "out"
    page.write_text(MARKERS, "utf-8")
    args: List[Any] = [
        EXAMPLE / "smoke.yaml", "--output", output, "--data", f"toy={data}", "--report", page,
    ]  # fmt: skip
    first = run(*args)
    assert first.returncode == 0, first.stderr[-3000:]
    rows = json.loads((output / "rows.json").read_text("utf-8"))
    assert [(r["training"], r["seed"], r["decoding"]) for r in rows] == [
        ("one-stage", 1, "passes-1"),
        ("one-stage", 1, "passes-4"),
        ("one-stage", 2, "passes-1"),
        ("one-stage", 2, "passes-4"),
        ("two-stages", 1, "passes-4"),
        ("two-stages", 2, "passes-4"),
    ]
    for row in rows:
        assert 0 <= row["bleu"] <= 100 and row["train_cpu_seconds"] > 0 and row["updates"] == 6
        assert row["passes"] == 1 if row["decoding"] == "passes-1" else 1 <= row["passes"] <= 4
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| two-stages | passes-4 |" in text.replace("  ", " ").replace("  ", " ")
    assert "two stages or one" in text and "±" in text

    # Everything is there already, and an unfinished cell alone is run again.
    cell = output / "two-stages-seed2" / "passes-4.json"
    kept = output / "one-stage-seed1" / "training.json"
    stamp = kept.stat().st_mtime_ns
    cell.unlink()
    again = run(*args)
    assert again.returncode == 0, again.stderr[-3000:]
    assert kept.stat().st_mtime_ns == stamp and cell.is_file()
    found = json.loads((output / "rows.json").read_text("utf-8"))
    assert [r["bleu"] for r in found] == [r["bleu"] for r in rows]

    # Another option under an old name is an error, not an old result.
    changed = tmp_path / "changed.yaml"
    changed.write_text(
        (EXAMPLE / "smoke.yaml").read_text("utf-8").replace("max-update: 6", "max-update: 7"),
        "utf-8",
    )
    refused = run(changed, *args[1:])
    assert refused.returncode == 2 and "was made with other options" in refused.stderr


@pytest.fixture(scope="module")
def grids() -> Any:
    """The module that reads grids, under a name of its own."""
    spec = importlib.util.spec_from_file_location("ablation_grid", EXAMPLE / "grid.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ablation_grid"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "grid,match",
    [
        ("data: {toy: nowhere}\ntrainings: []\ndecodings: {}", "trainings must be there"),
        (
            "data: {toy: nowhere}\ndecodings: {}\n"
            "trainings: [{name: a, data: toy, decodings: [none]}]",
            "no decoding called 'none'",
        ),
        (
            "data: {}\ndecodings: {}\ntrainings: [{name: a, data: toy, decodings: []}]",
            "no data called 'toy'",
        ),
        (
            "data: {}\ndecodings: {}\ntrainings: []\n"
            "comparisons: [{name: x, a: [p, q], b: [r, s]}]",
            "trainings must be there",
        ),
        ("passes: 3", "unknown key 'passes'"),
        ("- 1", "holds no grid"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_grid_that_says_nothing_useful(grids: Any, tmp_path: Path, grid: str, match: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(grid, "utf-8")
    with pytest.raises(UserError, match=match):
        grids.read_grid(path, {})


@pytest.mark.parametrize("name", ["first.yaml", "paper.yaml"])
def test_the_shipped_grids_can_be_read(grids: Any, name: str) -> None:
    found = grids.read_grid(EXAMPLE / name, {"teacher": "t.pt"})
    assert found.seeds == [1, 2] and found.comparisons
    for training in found.trainings:
        assert found.train_options(training, 2)["init-from"] == "t.pt"
    known = set(vars(DecodingOptions.of(TranslationGMLMConfig(), Namespace())))
    fairseq = {"iter_decode_max_iter", "iter_decode_with_beam", "reranker"}
    for options in found.decodings.values():
        assert set(options) <= known | fairseq


def test_a_missing_data_bin_is_named(tmp_path: Path) -> None:
    found = run(EXAMPLE / "smoke.yaml", "--output", tmp_path / "out", "--data", "toy=nowhere")
    assert found.returncode == 2 and "no data-bin at nowhere" in found.stderr
