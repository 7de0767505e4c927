"""One HTML page with tables and plots; it needs nothing else, and no network."""

from html import escape
from typing import List

from fairseq_gmlm.comparison.notes import conditions, notes
from fairseq_gmlm.comparison.pictures import inline_pictures
from fairseq_gmlm.comparison.plots import TITLES
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.comparison.tables import (
    MAIN,
    Column,
    bucket_table,
    detail_columns,
    render,
    render_cells,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  color: CanvasText; background: Canvas; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { vertical-align: bottom; white-space: normal; }
tbody tr:hover { background: #8882; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figure svg text { font-family: system-ui, sans-serif !important; }
figcaption { font-size: .9rem; }
li { overflow-wrap: anywhere; }
"""


def _numbered(rows: List[Row], columns: List[Column]) -> str:
    """A table whose first column counts the rows, as the plots do."""
    places = {id(row): str(number) for number, row in enumerate(rows, 1)}
    count = Column("no.", lambda row: places[id(row)])
    return _wide(render(rows, [count, *columns], "html"))


def _wide(table: str) -> str:
    return f'<div class="wide" tabindex="0">{table}</div>'


def _figures(rows: List[Row]) -> str:
    parts = []
    for name, svg in inline_pictures(rows).items():
        title = escape(TITLES[name])
        picture = svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
        parts.append(
            f"<figure>{picture}<figcaption>{title}. Numbers are those of the table."
            "</figcaption></figure>"
        )
    return "\n".join(parts)


def page(rows: List[Row]) -> str:
    """The page; everything that comes from files is escaped.

    Raises:
        UserError: matplotlib is missing.
    """
    title = f"Comparison of {len(rows)} systems"
    if rows[0].split:
        title += f" on {rows[0].split}"
    records = bucket_table(rows)
    heads = list(dict.fromkeys(head for record in records for head in record))
    by_length = render_cells(heads, [[r.get(h, "") for h in heads] for r in records], "html")
    items = "\n".join(f"<li>{escape(note)}</li>" for note in notes(rows))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{_numbered(rows, MAIN)}
<p>{escape(conditions(rows))}</p>
<h2>Plots</h2>
{_figures(rows)}
<h2>Details</h2>
{_numbered(rows, detail_columns(rows))}
<h2>By source length</h2>
<p>BLEU and median latency at batch 1, by source subwords.</p>
{_wide(by_length)}
<h2>Notes</h2>
<ul>
{items}
</ul>
</body>
</html>"""
