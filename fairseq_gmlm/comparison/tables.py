"""Rows to tables: what columns there are, and how their values are written."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Optional

from tabulate import tabulate

from fairseq_gmlm.comparison.row import Row

MEGA = 1_000_000
NONE = ""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        head: what stands above it.
        value: text of a row.
        shown: whether these rows have anything to say in it.
    """

    head: str
    value: Callable[[Row], str]
    shown: Callable[[List[Row]], bool] = lambda rows: True


def _text(form: str, value: Optional[float]) -> str:
    return NONE if value is None else form.format(value)


def _plain(head: str, key: str, form: str, optional: bool = False) -> Column:
    """A field of the row; an optional one shows where some row has it."""

    def shown(rows: List[Row]) -> bool:
        return not optional or any(getattr(row, key) is not None for row in rows)

    return Column(head, lambda row: _text(form, getattr(row, key)), shown)


def _scored(head: str, key: str, form: str, optional: bool = False) -> Column:
    """A field with its standard deviation behind it, if there is one."""

    def value(row: Row) -> str:
        deviation = getattr(row, f"{key}_std")
        spread = NONE if deviation is None else f" ± {form.format(deviation)}"
        return _text(form, getattr(row, key)) + spread

    return Column(head, value, _plain(head, key, form, optional).shown)


def _scaled(head: str, key: str, scale: float, form: str) -> Column:
    """An optional field in larger units."""

    def value(row: Row) -> str:
        found = getattr(row, key)
        return NONE if found is None else form.format(found / scale)

    return Column(head, value, lambda rows: any(getattr(row, key) is not None for row in rows))


_NAME = Column("system", lambda row: row.name)
MAIN = [
    _NAME,
    _scored("BLEU", "bleu", "{:.2f}"),
    _plain("p", "p_value", "{:.3f}", optional=True),
    _scored("chrF", "chrf", "{:.1f}"),
    _scored("COMET", "comet", "{:.4f}", optional=True),
    _plain("passes", "passes", "{:.1f}"),
    _plain("ms, batch 1", "latency_ms", "{:.1f}"),
    _plain("speed-up", "speedup", "{:.2f}x", optional=True),
    _plain("sentences/s", "sentences_per_second", "{:.1f}"),
    _plain("length ratio", "length_ratio", "{:.3f}"),
    _plain("stutter", "stutter", "{:.2%}"),
]
_BEFORE = [
    _NAME,
    _plain("seeds", "seeds", "{:d}"),
    _scored("tokenised BLEU", "tokenised_bleu", "{:.2f}", optional=True),
    _scored("BLEU at oracle length", "oracle_length_bleu", "{:.2f}", optional=True),
    _plain("brevity penalty", "brevity_penalty", "{:.3f}"),
    _plain("masks left", "leftovers", "{:d}", optional=True),
    _plain("ms, 95th percentile", "latency_p95_ms", "{:.1f}"),
]
_AFTER = [
    _scaled("peak memory, MB", "peak_memory_bytes", MEGA, "{:.0f}"),
    _scaled("parameters, M", "parameters", MEGA, "{:.2f}"),
    _scaled("weights, MB", "weight_bytes", MEGA, "{:.1f}"),
    _plain("updates", "training_updates", "{:.0f}", optional=True),
    _scaled("training, minutes", "training_seconds", 60, "{:.1f}"),
    _plain("stages", "training_stages", "{:g}", optional=True),
]


def detail_columns(rows: List[Row]) -> List[Column]:
    """Columns of the second table; throughput where several batch sizes were timed."""
    sizes = list(dict.fromkeys(size for row in rows for size in row.throughput))
    rates = [
        Column(f"sentences/s, batch {n}", lambda row, n=n: _text("{:.1f}", row.throughput.get(n)))
        for n in sizes
    ]
    return [*_BEFORE, *(rates if len(sizes) > 1 else []), *_AFTER]


def bucket_table(rows: List[Row]) -> List[Dict[str, str]]:
    """BLEU and latency of each row by source length, as records."""
    found = []
    for row in rows:
        record = {"system": row.name}
        for part in row.buckets:
            head = f"{part['shortest']} to {part['longest']}"
            latency = _text("{:.1f} ms", part["latency_ms"]) or "not timed"
            record[head] = f"{part['bleu']:.2f}, {latency}"
        found.append(record)
    return found


def render(rows: List[Row], columns: List[Column], form: str) -> str:
    """A table in one of tabulate's formats; github's cells get their bars escaped."""
    columns = [column for column in columns if column.shown(rows)]
    return render_cells(
        [column.head for column in columns],
        [[column.value(row) for column in columns] for row in rows],
        form,
    )


def render_cells(heads: List[str], cells: List[List[str]], form: str) -> str:
    """A table of text, names to the left."""
    if form == "github":
        cells = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    align = ["left" if head == _NAME.head else "right" for head in heads]
    return tabulate(cells, heads, tablefmt=form, colalign=align, disable_numparse=True)


def flat(row: Row) -> Dict[str, Any]:
    """The row with lists and groups as JSON, for CSV."""
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
        for key, value in asdict(row).items()
    }
