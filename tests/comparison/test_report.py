"""Tables."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

from fairseq_gmlm.comparison.report import Row, markdown, write_reports

ROWS = [
    Row("GMLM | 4", "gmlm_transformer", 21.234, 45.06, 3.5, 12.34, 20.0, 100.04, 0.987, 0.98,
        0.0123, 1000, 32, 1, 1, "sig"),
]  # fmt: skip


def test_markdown_rounds_and_says_the_conditions() -> None:
    text = markdown(ROWS)
    cells = [cell.strip() for cell in text.split("\n")[2].replace("\\|", "/").strip("|").split("|")]
    assert cells[-7:] == ["21.23", "45.1", "3.5", "12.3", "100.0", "0.987", "1.23%"]
    assert "Batches of 32, 1 thread(s). BLEU: sig." in text


def test_files_hold_every_key(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("r.json", "r.csv", "r.md")]
    write_reports(ROWS, *paths)
    assert json.loads(Path(paths[0]).read_text("utf-8")) == [asdict(ROWS[0])]
    assert [Row(**row) for row in json.loads(Path(paths[0]).read_text("utf-8"))] == ROWS
    with open(paths[1], newline="", encoding="utf-8") as stream:
        (row,) = csv.DictReader(stream)
    assert row["bleu"] == "21.234" and set(row) == set(asdict(ROWS[0]))
    assert Path(paths[2]).read_text("utf-8") == markdown(ROWS) + "\n"


def test_keys_that_readers_rely_on() -> None:
    promised = {
        *("name", "system", "bleu", "chrf", "passes", "latency_ms", "sentences_per_second"),
        *("length_ratio", "stutter", "seeds"),
    }
    assert promised <= set(asdict(ROWS[0]))
