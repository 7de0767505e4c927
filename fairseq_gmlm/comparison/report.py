"""Rows to Markdown, CSV and JSON."""

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import List

from tabulate import tabulate

from fairseq_gmlm.data.files import atomic_write, write_json


@dataclass(frozen=True)
class Row:
    """One system's results; the keys are those of the JSON rows.

    Attributes:
        name, system: the row's name and the architecture.
        bleu, chrf, signature, length_ratio, brevity_penalty: see :class:`Quality`.
        passes: decoder runs per sentence, mean; for an autoregressive model, one a token.
        latency_ms, latency_p95_ms: at batch 1, median and 95th percentile.
        sentences_per_second: at ``batch_size``.
        batch_size, threads: conditions of the timing.
        stutter: share of subwords that repeat their left neighbour.
        parameters: number of weights.
        seeds: number of checkpoints behind the row.
    """

    name: str
    system: str
    bleu: float
    chrf: float
    passes: float
    latency_ms: float
    latency_p95_ms: float
    sentences_per_second: float
    length_ratio: float
    brevity_penalty: float
    stutter: float
    parameters: int
    batch_size: int
    threads: int
    seeds: int
    signature: str


_COLUMNS = {
    "name": ("system", "{}"),
    "bleu": ("BLEU", "{:.2f}"),
    "chrf": ("chrF", "{:.1f}"),
    "passes": ("passes", "{:.1f}"),
    "latency_ms": ("ms, batch 1", "{:.1f}"),
    "sentences_per_second": ("sentences/s", "{:.1f}"),
    "length_ratio": ("length ratio", "{:.3f}"),
    "stutter": ("stutter", "{:.2%}"),
}


def markdown(rows: List[Row]) -> str:
    """The table that people read."""
    cells = [
        [form.format(getattr(row, key)) for key, (_, form) in _COLUMNS.items()] for row in rows
    ]
    heads = [head for head, _ in _COLUMNS.values()]
    align = ["left"] + ["right"] * (len(heads) - 1)
    table = tabulate(cells, heads, tablefmt="github", colalign=align, disable_numparse=True)
    first = rows[0]
    return (
        f"{table}\n\nBatches of {first.batch_size}, {first.threads} thread(s). "
        f"BLEU: {first.signature}. Passes of an autoregressive model: one a token."
    )


def write_reports(rows: List[Row], json_path: str, csv_path: str, markdown_path: str) -> None:
    """Write those whose path is given."""
    if json_path:
        write_json(Path(json_path), [asdict(row) for row in rows])
    if csv_path:
        with atomic_write(Path(csv_path)) as stream:
            writer = csv.DictWriter(stream, list(asdict(rows[0])), lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    if markdown_path:
        with atomic_write(Path(markdown_path)) as stream:
            stream.write(markdown(rows) + "\n")
