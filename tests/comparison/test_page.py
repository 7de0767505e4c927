"""The page and the pictures."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import List

import pytest

from fairseq_gmlm.comparison.plots import pareto_front
from fairseq_gmlm.comparison.report import Reports, write_reports
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.errors import UserError

BUCKETS = [
    {"shortest": 2, "longest": 9, "sentences": 5, "bleu": 30.0, "latency_ms": 4.0, "timed": 2},
    {"shortest": 10, "longest": 40, "sentences": 5, "bleu": 20.0, "latency_ms": None, "timed": 0},
]
EVIL = "<script>alert('$x$')</script> & \"$\\frac\""
FIRST = Row(
    EVIL, "gmlm_transformer", 21.2, 45.0, 3.5, 12.3, 20.0, 100.0, 0.98, 0.98, 0.01, 1000, 32, 1,
    2, "sig", family="gmlm", bleu_std=0.4, buckets=BUCKETS, split="test", warnings=[EVIL],
)  # fmt: skip
ROWS = [
    FIRST,
    replace(FIRST, name="teacher", system="transformer", bleu=25.0, latency_ms=90.0, passes=14.0),
    replace(FIRST, name="slow", system="cmlm_transformer", bleu=20.0, latency_ms=200.0),
]
NAMES = ("quality_latency", "quality_passes", "source_length")


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(1, 5), (2, 4), (3, 9), (4, 9)], [0, 2]),
        ([(2, 5), (2, 7), (1, 5)], [2, 1]),
        ([(1, 1)], [0]),
        ([], []),
    ],
)
def test_pareto_front_holds_what_nothing_beats(points, front) -> None:
    assert pareto_front(points) == front


class Tags(HTMLParser):
    """Notes tags that are open, and text by the innermost one."""

    def __init__(self) -> None:
        super().__init__()
        self.names: List[str] = []
        self.attributes: List[str] = []
        self.text: List[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.names.append(tag)
        self.attributes += [f"{name}={value}" for name, value in attrs]

    def handle_data(self, data) -> None:
        self.text.append(data)


def test_page_holds_tables_and_plots_and_nothing_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "page.html"
    write_reports(ROWS, Reports(html=str(path)))
    text = path.read_text("utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.names.count("svg") == 3 and tags.names.count("table") == 3
    assert not {"script", "link", "img", "iframe"} & set(tags.names)
    assert (
        "http" not in text and "@import" not in text and "url(" not in re.sub(r"url\(#", "", text)
    )
    assert "<script" not in text
    assert sum(EVIL in part for part in tags.text) >= 4  # tables, legend, warnings: as it is
    assert "color-scheme: light dark" in text
    assert "currentColor" in text and "#010203" not in text
    ids = [each for each in tags.attributes if each.startswith("id=")]
    assert len(ids) == len(set(ids))
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg.replace("xlink:href", "href"))
    numbers = [part.strip() for part in tags.text if part.strip() in ("1", "2", "3")]
    assert len(numbers) >= 12  # two tables, two plots


def test_pictures_are_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_reports(ROWS, Reports(plots=str(tmp_path / "figures")))
    for name in NAMES:
        png = (tmp_path / "figures" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        tree = ElementTree.parse(tmp_path / "figures" / f"{name}.svg")
        texts = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert any("BLEU" in (text or "") for text in texts)
    assert len(list((tmp_path / "figures").iterdir())) == 6


def test_rows_without_lengths_have_no_picture_of_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [replace(row, buckets=[]) for row in ROWS]
    write_reports(rows, Reports(plots=str(tmp_path)))
    assert not list(tmp_path.glob("source_length*"))


@pytest.mark.parametrize("kind", ["html", "plots"])
def test_missing_matplotlib_is_named(kind: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"fairseq-gmlm\[plot\]"):
        write_reports(ROWS, Reports(**{kind: str(tmp_path / "x")}))
