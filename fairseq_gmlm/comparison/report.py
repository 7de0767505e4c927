"""Rows to Markdown, CSV, LaTeX, JSON, and to a page and pictures."""

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import List, Optional

from fairseq_gmlm.comparison.notes import conditions, notes
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.comparison.tables import MAIN, bucket_table, detail_columns, flat, render
from fairseq_gmlm.comparison.tables import render_cells as cells
from fairseq_gmlm.data.files import atomic_write, write_json


@dataclass(frozen=True)
class Reports:
    """Where reports go; those without a path are not written.

    Attributes:
        json, csv, markdown, latex, html: files.
        plots: folder.
    """

    json: Optional[str] = None
    csv: Optional[str] = None
    markdown: Optional[str] = None
    latex: Optional[str] = None
    html: Optional[str] = None
    plots: Optional[str] = None

    @property
    def draws(self) -> bool:
        """Whether any of them needs matplotlib."""
        return bool(self.html or self.plots)


def markdown(rows: List[Row]) -> str:
    """The tables that people read, and the small print."""
    parts = [
        render(rows, MAIN, "github"),
        conditions(rows),
        render(rows, detail_columns(rows), "github"),
    ]
    if any(row.buckets for row in rows):
        records = bucket_table(rows)
        heads = list(dict.fromkeys(head for record in records for head in record))
        lines = [[record.get(head, "") for head in heads] for record in records]
        parts.append("BLEU and median latency by source length (subwords):")
        parts.append(cells(heads, lines, "github"))
    parts += ["\n".join(f"- {note}" for note in notes(rows))]
    return "\n\n".join(part for part in parts if part)


def latex(rows: List[Row]) -> str:
    """Both tables as ``tabular``, with the small print as comments."""
    small = "\n".join(f"% {note}" for note in [conditions(rows), *notes(rows)])
    tables = [render(rows, columns, "latex") for columns in (MAIN, detail_columns(rows))]
    return "\n\n".join([small, *tables])


def _write(path: str, text: str) -> None:
    with atomic_write(Path(path)) as stream:
        stream.write(text + "\n")


def write_reports(rows: List[Row], to: Reports) -> None:
    """Write those whose path is given.

    Raises:
        UserError: a picture is asked for and matplotlib is missing.
    """
    if to.json:
        write_json(Path(to.json), [asdict(row) for row in rows])
    if to.csv:
        with atomic_write(Path(to.csv)) as stream:
            writer = csv.DictWriter(stream, list(flat(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(flat(row) for row in rows)
    if to.markdown:
        _write(to.markdown, markdown(rows))
    if to.latex:
        _write(to.latex, latex(rows))
    if to.html:
        from fairseq_gmlm.comparison.page import page

        _write(to.html, page(rows))
    if to.plots:
        from fairseq_gmlm.comparison.pictures import write_pictures

        write_pictures(rows, Path(to.plots))
