"""scripts/matrix.py: rows run in their own interpreter, and the table says what was found."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    """The script, with a folder of its own and rows for this Python and for one that nobody has."""
    spec = importlib.util.spec_from_file_location("matrix", ROOT / "scripts" / "matrix.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["matrix"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path / ".matrix")
    rows = (
        module.Row("here", HERE, "this one"),
        module.Row("lost", "3.99", "no such Python"),
    )
    monkeypatch.setattr(module, "ROWS", rows)
    yield module
    del sys.modules["matrix"]


def use_this_python(module, monkeypatch):
    """An environment that is this one."""

    def install(row, python, log):
        folder = module.FOLDER / row.name / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "utf-8")
        (folder / "python").chmod(0o755)
        return ["make environment", "pip install 'numpy<2'"]

    monkeypatch.setattr(module, "install", install)


def test_a_row_is_run_and_told(matrix, monkeypatch, tmp_path, capsys):
    use_this_python(matrix, monkeypatch)
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- matrix: begin -->\nwhat was there\n<!-- matrix: end -->\nafter\n", "utf-8"
    )
    test = tmp_path / "test_three.py"
    test.write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): pass\ndef test_c(): pytest.skip('c')\n",
        "utf-8",
    )
    assert matrix.main(["--page", str(page), "--tests", f"{test} -p no:cacheprovider"]) == 0
    out, err = capsys.readouterr()
    assert "lost: no Python 3.99" in err
    found = json.loads((matrix.FOLDER / "results.json").read_text("utf-8"))["here"]
    assert (found["passed"], found["failed"], found["skipped"]) == (2, 0, 1)
    assert found["python"].startswith(HERE)
    assert re.fullmatch(r"(ve-fairseq|fairseq-fixed|fairseq) 0\.12\.[\d.]+", found["fairseq"])
    text = page.read_text("utf-8")
    assert (
        text.startswith("before\n") and text.endswith("\nafter\n") and "what was there" not in text
    )
    assert out.strip() in text and f"| here  | {found['python']}" in text
    assert "make environment\npip install 'numpy<2'" in text


def test_a_row_that_fails_is_counted(matrix, monkeypatch, tmp_path):
    use_this_python(matrix, monkeypatch)
    test = tmp_path / "test_one.py"
    test.write_text("def test_a(): assert False\n", "utf-8")
    assert matrix.main(["--rows", "here", "--tests", f"{test} -p no:cacheprovider"]) == 1


def test_a_row_that_cannot_be_installed_is_told(matrix, monkeypatch, capsys):
    def install(row, python, log):
        raise RuntimeError(f"pip ended with 1; see {log}")

    monkeypatch.setattr(matrix, "install", install)
    assert matrix.main(["--rows", "here"]) == 1
    assert "pip ended with 1" in capsys.readouterr().out


def test_a_page_without_marks_is_refused(matrix, tmp_path):
    (tmp_path / "page.md").write_text("nothing", "utf-8")
    with pytest.raises(ValueError, match="has no lines <!-- matrix: begin"):
        matrix.write_into(tmp_path / "page.md", "matrix", "x")


def test_lower_bounds_are_those_of_setup(matrix):
    import subprocess

    told = subprocess.run(
        [sys.executable, "-c", matrix.LOWEST], capture_output=True, text=True, check=True
    )
    found = json.loads(told.stdout)
    assert "sacrebleu==2.3.1" in found and not any(word.startswith("torch=") for word in found)
    assert sum(word.startswith("numpy==") for word in found) == 1
