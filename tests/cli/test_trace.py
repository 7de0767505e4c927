"""Traces from the command line: ids and lines, text, page and JSON."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_teacher import ROOT

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.cli.trace import parse_ids
from fairseq_gmlm.errors import UserError


@pytest.fixture
def line(toy_data: Path, toy_gmlm: Path) -> list:
    passes = ["--set", "iter_decode_max_iter=2", "--set", "iter_decode_with_beam=2"]
    return ["trace", "--path", str(toy_gmlm), "--data", str(toy_data), "--cpu", *passes]


def test_ids() -> None:
    assert parse_ids("7,0-2, 1 ,7") == [7, 0, 1, 2]
    for bad in ("", "a", "3-1", "-1", "1,,2"):
        with pytest.raises(UserError, match="--ids"):
            parse_ids(bad)


def test_sentences_of_a_split(line: list, toy_data: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "trace.json"
    assert main([*line, "--ids", "5,0", "--json", str(path), "--color", "never"]) == 0
    shown = capsys.readouterr().out
    found = json.loads(path.read_text("utf-8"))
    assert [trace["number"] for trace in found] == [5, 0]
    assert re.findall(r"^sentence (\d+)", shown, re.MULTILINE) == ["5", "0"]
    references = (toy_data / "test.tok.de").read_text("utf-8").split("\n")
    for trace in found:
        assert trace["reference"] == references[trace["number"]]
        assert len(trace["lengths"]) == 2 and len(trace["chains"]) == 1
        assert trace["chains"][0]["text"] in shown
    assert "\x1b" not in shown and "pass 1 " in shown


def test_colours_and_candidates(line: list, monkeypatch: Any, capsys: Any) -> None:
    assert main([*line, "--ids", "0", "--color", "always", "--candidates", "2"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b[" in shown and "candidate 2, score" in shown
    assert main([*line, "--ids", "0"]) == 0  # not a terminal
    assert "\x1b[" not in capsys.readouterr().out


def test_lines_are_cut_as_the_data_were(
    line: list, toy_data: Path, tmp_path: Path, capsys: Any
) -> None:
    """A sentence of the test set, typed: the same chain as under its number."""
    typed = (toy_data / "test.raw.en").read_text("utf-8").split("\n")[4]
    given = tmp_path / "lines.txt"
    given.write_text(f"{typed}\n\nnever <b>seen</b>\n", "utf-8")
    codec = ["--tokenizer", "moses", "--bpe", "subword_nmt"]
    codec += ["--bpe-codes", str(toy_data / "bpecodes")]
    paths = [tmp_path / "typed.json", tmp_path / "split.json"]
    assert main([*line, "--input", str(given), *codec, "--json", str(paths[0])]) == 0
    assert main([*line, "--ids", "4", "--json", str(paths[1])]) == 0
    typed, split = (json.loads(path.read_text("utf-8")) for path in paths)
    assert [trace["number"] for trace in typed] == [0, 1, 2]
    assert typed[0]["source"] == split[0]["source"]
    assert typed[0]["chains"][0]["text"] == split[0]["chains"][0]["text"]
    assert typed[1]["source"] == ["</s>"] and typed[1]["chains"][0]["text"] == ""
    assert "<unk>" in typed[2]["source"] and typed[2]["reference"] is None
    capsys.readouterr()


def test_standard_input_and_page(line: list, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"w1 w2 w3\n"), "utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    page = tmp_path / "trace.html"
    assert main([*line, "--html", str(page)]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>") and 'aria-label="Passes of sentence 0' in text
    assert "<dt>iter_decode_max_iter</dt><dd>2</dd>" in text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--ids", "20"], "--ids 20: test has 20 sentences"),
        (["--ids", "x"], "'x' is no number or range"),
        (["--input", "none.txt"], "--input none.txt: no such file"),
        (["--ids", "0", "--candidates", "0"], "--candidates must be at least 1, not 0"),
        (["--ids", "0", "--html", "nowhere/x.html"], "nowhere/x.html"),
    ],
)
def test_faults_are_named(more: list, message: str, line: list, capsys: Any) -> None:
    assert main([*line, *more]) == 2
    assert message in capsys.readouterr().err


def test_the_pages_files_are_installed(tmp_path: Path) -> None:
    """Those that ``setup.py`` packs are those that the page reads."""
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build", "--build-lib", str(tmp_path / "lib")],
        cwd=copied(tmp_path / "tree"), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (page,) = (tmp_path / "lib").rglob("analysis/page")
    assert {path.name for path in page.iterdir()} == {"template.html", "style.css", "script.js"}


def copied(folder: Path) -> Path:
    """What packaging needs, apart from this checkout, where builds would leave files."""
    import shutil

    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fairseq_gmlm", folder / "fairseq_gmlm", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder
