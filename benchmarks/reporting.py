"""Rows of a benchmark as JSON, CSV, a Markdown table and a picture, and its bars met or missed."""

import csv
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from tabulate import tabulate

from fairseq_gmlm.data.files import atomic_write, write_json

Row = Dict[str, Any]

KEYS = (
    "system",
    "engine",
    "dtype",
    "batch",
    "length",
    "vocabulary",
    "threads",
    "passes",
    "median_ms",
    "p95_ms",
    "peak_mb",
)
"""What every row has. ``passes``: decoder runs, None where the word has no meaning (training);
times in milliseconds of one batch; ``peak_mb``: largest resident memory in MiB, or None."""


@dataclass(frozen=True)
class Bar:
    """A goal: a ratio that must be reached.

    Attributes:
        name: what is compared.
        at_least: the goal.
        reached: the ratio that was measured.
        low, high: its quartiles over the paired runs, or None.
    """

    name: str
    at_least: float
    reached: float
    low: Optional[float] = None
    high: Optional[float] = None

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.reached >= self.at_least


def check_rows(rows: Sequence[Row]) -> None:
    """Every row must have every key of :data:`KEYS`.

    Raises:
        ValueError: with the row and what it lacks.
    """
    for row in rows:
        missing = [key for key in KEYS if key not in row]
        if missing:
            raise ValueError(f"row {row.get('system')!r} lacks {', '.join(missing)}")


def columns(rows: Sequence[Row]) -> List[str]:
    """:data:`KEYS`, and after them what else the rows have, in order of appearance."""
    return list(dict.fromkeys([*KEYS, *(key for row in rows for key in row)]))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else _whole(value)


def _whole(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def markdown(rows: Sequence[Row], keys: Optional[Sequence[str]] = None) -> str:
    """A GitHub table of ``keys``, by default all :func:`columns`."""
    keys = list(keys or columns(rows))
    cells = [[_cell(row.get(key)) for key in keys] for row in rows]
    words = {"system", "engine", "dtype"}
    align = ["left" if key in words else "right" for key in keys]
    return tabulate(cells, keys, tablefmt="github", colalign=align, disable_numparse=True)


def bars_table(bars: Sequence[Bar]) -> str:
    """A GitHub table of bars: the goal, what was reached with its quartiles, met or missed."""
    cells = []
    for bar in bars:
        spread = "" if bar.low is None else f"{bar.low:.2f} to {bar.high:.2f}"
        verdict = "met" if bar.met else "missed"
        cells.append([bar.name, f"{bar.at_least:g}x", f"{bar.reached:.2f}x", spread, verdict])
    heads = ["work", "at least", "reached", "quartiles", ""]
    align = ["left", "right", "right", "right", "left"]
    return tabulate(cells, heads, tablefmt="github", colalign=align, disable_numparse=True)


def machine() -> str:
    """One line: processor, operating system, Python and torch."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        name = found.group(1) if found else name
    if torch.cuda.is_available():
        name += f", {torch.cuda.get_device_name()}"
    return (
        f"{name}; {platform.system()}; Python {platform.python_version()}; "
        f"torch {torch.__version__}"
    )


def draw(rows: Sequence[Row], path: Path, x: str = "length") -> None:
    """A PNG of the medians: lines over ``x`` where it varies, else a bar for each row.

    Args:
        rows: at least one.
        path: the file to write.
        x: a numeric key.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, max(3.0, 0.3 * len(rows))), layout="constrained")
    label = lambda row: f"{row['system']}, {row['dtype']}"  # noqa: E731
    lines: Dict[str, List[Row]] = {}
    fixed = [key for key in ("batch", "vocabulary", "threads", "length") if key != x]
    for row in rows:
        varying = [f"{k} {row[k]}" for k in fixed if len({r[k] for r in rows}) > 1]
        lines.setdefault(", ".join([label(row), *varying]), []).append(row)
    if max(map(len, lines.values())) > 1:
        for name, part in lines.items():
            part = sorted(part, key=lambda row: row[x])
            axes.plot([r[x] for r in part], [r["median_ms"] for r in part], "o-", label=name)
        axes.set(xlabel=x, ylabel="median, ms", xscale="log", yscale="log")
        axes.legend(fontsize="x-small")
    else:
        axes.barh(list(lines), [part[0]["median_ms"] for part in lines.values()])
        axes.invert_yaxis()
        axes.set(xlabel="median, ms")
    axes.grid(alpha=0.3)
    with atomic_write(path, binary=True) as stream:
        figure.savefig(stream, format="png", dpi=130)
    plt.close(figure)


def write_reports(
    rows: Sequence[Row], json_path: Path, bars: Sequence[Bar] = (), x: str = "length"
) -> None:
    """Write ``json_path`` (a list of rows) and beside it ``.csv``, ``.md`` and ``.png``.

    Args:
        rows: with :data:`KEYS` and anything else that is plain data.
        json_path: ends in ``.json``.
        bars: goals; they stand in the Markdown file above the rows.
        x: horizontal axis of the picture, see :func:`draw`.
    """
    check_rows(rows)
    write_json(json_path, list(rows))
    with atomic_write(json_path.with_suffix(".csv")) as stream:
        writer = csv.DictWriter(stream, columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    parts = [machine(), markdown(rows)]
    if bars:
        parts.insert(1, bars_table(bars))
        write_json(json_path.with_suffix(".bars.json"), [{**asdict(b), "met": b.met} for b in bars])
    with atomic_write(json_path.with_suffix(".md")) as stream:
        stream.write("\n\n".join(parts) + "\n")
    draw(rows, json_path.with_suffix(".png"), x)


def finish(
    rows: Sequence[Row], shown: Sequence[str], bars: Sequence[Bar], json_path: Optional[Path]
) -> None:
    """Print the table and the goals, and write the reports if a path is given."""
    print(f"{machine()}\n\n{markdown(rows, shown)}")
    if bars:
        print(f"\n{bars_table(bars)}")
    if json_path:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        write_reports(rows, json_path, bars)
