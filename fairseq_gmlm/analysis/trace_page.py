"""Traces as one HTML file that works from disk: no network, no other file."""

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any, Dict, List, Optional, Sequence

from jinja2 import Environment
from markupsafe import Markup

from fairseq_gmlm.analysis.tracing import Cell, SentenceTrace

LEVELS = 8  # of confidence; level 0 is the least sure


def level(probability: Optional[float]) -> Optional[int]:
    """Which of the colours a probability gets.

    >>> [level(p) for p in (0.0, 0.5, 0.999, 1.0, None)]
    [0, 4, 7, 7, None]
    """
    return None if probability is None else min(int(probability * LEVELS), LEVELS - 1)


def describe(cell: Cell) -> str:
    """What happened to a position, in words, for readers that see no marks."""
    if not cell.predicted:
        words = ["not predicted"]
    else:
        words = ["predicted", "new" if cell.changed else "unchanged"]
    words += ["rejected"] * cell.rejected + ["remasked"] * cell.remasked + ["kept"] * cell.kept
    return ", ".join(words)


def percentages(rows: Sequence[Sequence[float]]) -> List[List[int]]:
    """Attention in whole per cents, which is as much as can be seen."""
    return [[round(100 * value) for value in row] for row in rows]


def embedded_json(value: Any) -> Markup:
    """JSON for a script element: no character in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def trace_page(traces: Sequence[SentenceTrace], about: Dict[str, Any]) -> str:
    """The page.

    Args:
        traces: sentences, in the order of the page.
        about: what is said at the top: name to value.
    """
    folder = files("fairseq_gmlm.analysis") / "page"
    texts = {
        name: (folder / name).read_text("utf-8")
        for name in ("template.html", "style.css", "script.js")
    }
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(level=level, describe=describe)
    attention = [
        [
            [{"inner": percentages(p.inner), "cross": percentages(p.cross)} for p in chain.passes]
            for chain in trace.chains
        ]
        for trace in traces
    ]
    return environment.from_string(texts["template.html"]).render(
        traces=traces,
        about=about,
        levels=LEVELS,
        style=Markup(texts["style.css"]),
        script=Markup(texts["script.js"]),
        attention=embedded_json(attention),
    )


def trace_json(traces: Sequence[SentenceTrace]) -> List[Dict[str, Any]]:
    """Plain values under the names of the dataclasses."""
    return [asdict(trace) for trace in traces]
