"""Rows to files, and bars."""

import csv
import json
import re
from pathlib import Path

import pytest
from reporting import KEYS, Bar, bars_table, markdown, write_reports


def row(system: str, **values):
    """A row with every key."""
    plain = dict.fromkeys(KEYS, 1)
    return {**plain, "engine": "torch", "dtype": "int8", "system": system, **values}


def test_four_files_with_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("a", median_ms=1.5), row("b", median_ms=12345.6, peak_mb=None, equal=0.25)]
    write_reports(rows, tmp_path / "decode.json", [Bar("a against b", 2.0, 1.9, 1.8, 2.1)])
    assert json.loads((tmp_path / "decode.json").read_text()) == rows
    with (tmp_path / "decode.csv").open(newline="") as stream:
        read = list(csv.DictReader(stream))
    assert list(read[0]) == [*KEYS, "equal"]
    assert [r["median_ms"] for r in read] == ["1.5", "12345.6"] and read[1]["peak_mb"] == ""
    page = (tmp_path / "decode.md").read_text()
    assert "| a against b |" in page and "1.80 to 2.10" in page and "missed" in page
    assert re.search(r"\|\s+12346 \|", page)
    assert (tmp_path / "decode.png").read_bytes().startswith(b"\x89PNG")


def test_lines_where_lengths_vary(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(s, length=n, median_ms=n) for s in "ab" for n in (25, 50)]
    write_reports(rows, tmp_path / "curve.json")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert not (tmp_path / "curve.bars.json").exists()


def test_a_row_without_a_key_is_refused(tmp_path: Path) -> None:
    short = row("a")
    del short["peak_mb"], short["threads"]
    with pytest.raises(ValueError, match="row 'a' lacks threads, peak_mb"):
        write_reports([short], tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_bars_are_met_at_their_goal() -> None:
    table = bars_table([Bar("x", 1.35, 1.35), Bar("y", 1.35, 1.349)])
    verdicts = [line.split("|")[-2].strip() for line in table.splitlines()[2:]]
    assert verdicts == ["met", "missed"]


def test_chosen_columns() -> None:
    lines = markdown([row("a", passes=4)], ["system", "passes"]).splitlines()
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == ["a", "4"]
