"""Tables and files."""

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

from fairseq_gmlm.comparison.notes import notes
from fairseq_gmlm.comparison.report import Reports, latex, markdown, write_reports
from fairseq_gmlm.comparison.row import Row

PLAIN = Row(
    "GMLM | 4", "gmlm_transformer", 21.234, 45.06, 3.5, 12.34, 20.0, 100.04, 0.987, 0.98,
    0.0123, 1000, 32, 1, 1, "sig",
)  # fmt: skip
RICH = replace(
    PLAIN,
    name="A_1 & 50%",
    bleu_std=0.456,
    seeds=2,
    baseline="GMLM | 4",
    p_value=0.0123,
    speedup=2.5,
    tokenised_bleu=20.5,
    tokenised_by="as prepared",
    tokenised_signature="tok:none",
    comet=0.8123,
    comet_model="a/model",
    oracle_length_bleu=22.0,
    leftovers=3,
    throughput={"1": 10.0, "8": 50.04},
    peak_memory_bytes=500_000_000,
    base_memory_bytes=300_000_000,
    memory_decoding_only=True,
    weight_bytes=4_000_000,
    training_updates=1500.0,
    training_seconds=90.0,
    training_stages=2,
    buckets=[
        {"shortest": 2, "longest": 9, "sentences": 5, "bleu": 30.0, "latency_ms": 4.0, "timed": 2},
        {
            "shortest": 10,
            "longest": 40,
            "sentences": 5,
            "bleu": 20.0,
            "latency_ms": None,
            "timed": 0,
        },
    ],
    timing_runs=["one", "two"],
    load_average=5.0,
    warnings=["3 masks are left in the outputs"],
)


def table(text: str, number: int):
    """Heads and last line of the table ``number`` of a Markdown text."""
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    lines = blocks[number].replace("\\|", "/").split("\n")
    cut = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return dict(zip(cut[0], cut[-1]))


def test_markdown_rounds_and_says_the_conditions() -> None:
    text = markdown([PLAIN])
    assert table(text, 0) == {
        "system": "GMLM / 4",
        "BLEU": "21.23",
        "chrF": "45.1",
        "passes": "3.5",
        "ms, batch 1": "12.3",
        "sentences/s": "100.0",
        "length ratio": "0.987",
        "stutter": "1.23%",
    }
    assert "Batches of 32, 1 thread(s). BLEU: sig." in text


def test_columns_show_where_some_row_has_them() -> None:
    text = markdown([PLAIN, RICH])
    main, details, lengths = (table(text, number) for number in range(3))
    assert main["BLEU"] == "21.23 ± 0.46"
    assert (main["p"], main["speed-up"], main["COMET"]) == ("0.012", "2.50x", "0.8123")
    assert details["seeds"] == "2" and details["masks left"] == "3"
    assert details["BLEU at oracle length"] == "22.00"
    assert details["sentences/s, batch 8"] == "50.0"
    assert details["peak memory, MB"] == "500" and details["weights, MB"] == "4.0"
    assert (details["updates"], details["training, minutes"], details["stages"]) == (
        "1500", "1.5", "2",
    )  # fmt: skip
    assert lengths == {
        "system": "A_1 & 50%",
        "2 to 9": "30.00, 4.0 ms",
        "10 to 40": "20.00, not timed",
    }


def test_notes_say_what_a_reader_should_know() -> None:
    found = "\n".join(notes([RICH, replace(RICH, name="b", warnings=[])]))
    assert "standard deviation" in found
    assert "against GMLM | 4" in found
    assert "Times come from 2 runs (one; two)" in found
    assert "load average was up to 5.0" in found
    assert "up to 300 MB before the model is read" in found and "while it translates" in found
    assert "A_1 & 50%: 3 masks are left in the outputs." in found
    quiet = "\n".join(notes([replace(RICH, timing_runs=["one"], load_average=1.0)]))
    assert "runs" not in quiet and "load average" not in quiet


def test_latex_escapes_names() -> None:
    text = latex([PLAIN, RICH])
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 2
    assert "A\\_1 \\& 50\\%" in text
    outside = [line for line in text.split("\n") if line and not line.startswith("%")]
    assert outside[0].startswith("\\begin{tabular}{l")


def test_files_hold_every_key(tmp_path: Path) -> None:
    paths = {kind: str(tmp_path / f"r.{kind}") for kind in ("json", "csv", "markdown", "latex")}
    rows = [PLAIN, RICH]
    write_reports(rows, Reports(**paths))
    found = json.loads(Path(paths["json"]).read_text("utf-8"))
    assert found == [asdict(row) for row in rows]
    assert [Row(**row) for row in found] == rows
    with open(paths["csv"], newline="", encoding="utf-8") as stream:
        first, second = csv.DictReader(stream)
    assert first["bleu"] == "21.234" and set(first) == set(asdict(PLAIN))
    assert json.loads(second["buckets"]) == RICH.buckets
    assert Path(paths["markdown"]).read_text("utf-8") == markdown(rows) + "\n"
    assert Path(paths["latex"]).read_text("utf-8") == latex(rows) + "\n"


def test_keys_that_readers_rely_on() -> None:
    promised = {
        *("name", "system", "bleu", "chrf", "passes", "latency_ms", "sentences_per_second"),
        *("length_ratio", "stutter", "seeds"),
    }
    assert promised <= set(asdict(PLAIN))
