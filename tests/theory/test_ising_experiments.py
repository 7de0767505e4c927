import csv
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ising"


@pytest.fixture
def experiment(monkeypatch):
    """The module of resumable experiments, which the scripts import from their own folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("experiment")
    sys.modules.pop("experiment", None)


def test_finished_cells_are_not_computed_again(experiment, tmp_path):
    computed = []

    def compute(cell):
        computed.append(cell["x"])
        if cell["x"] == 2 and computed.count(2) == 1:
            raise KeyboardInterrupt
        return [{"square": cell["x"] ** 2}, {"cube": cell["x"] ** 3 + 0.5}]

    made = experiment.Experiment("powers", lambda quick: [{"x": i} for i in range(4)], compute)
    with pytest.raises(KeyboardInterrupt):
        made.run(tmp_path, quick=True)
    log = tmp_path / "progress" / "powers.jsonl"
    log.write_text(log.read_text("utf-8") + '{"cell": "{\\"x\\": 3}", "ro', "utf-8")  # cut short
    made.run(tmp_path, quick=True)
    assert computed == [0, 1, 2, 2, 3]
    assert [json.loads(line)["cell"] for line in log.read_text("utf-8").splitlines()] == [
        f'{{"x": {i}}}' for i in range(4)
    ]
    with (tmp_path / "powers.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[4] == {"x": "2", "square": "4", "cube": ""}
    assert rows[5] == {"x": "2", "square": "", "cube": "8.5"}


@pytest.mark.slow
def test_the_quick_run_writes_every_table_and_picture(tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "run.py"), "--quick", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    names = {"parameter_error", "joint_quality", "constants", "mixing", "escape", "large", "neural"}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    assert {path.stem for path in tmp_path.glob("*.csv")} == names | {"timing"}
    assert not (tmp_path / "progress").exists()


def test_the_page_shows_what_the_run_writes():
    page = (ROOT / "docs" / "theory.md").read_text("utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", page):
        assert (ROOT / "docs" / target).exists(), target
    pictures = sorted((ROOT / "docs" / "theory").glob("*.png"))
    assert len(pictures) == 7
    for picture in pictures:
        assert f"theory/{picture.name}" in page
        assert f"theory/{picture.stem}.csv" in page
        assert picture.stat().st_size < 150_000


def test_the_snippet_of_the_page_runs():
    page = (ROOT / "docs" / "theory.md").read_text("utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (expected,) = re.findall(r"prints\s+```text\n(.*?)```", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
