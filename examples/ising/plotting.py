"""Palette and helpers of the pictures."""

from typing import Any, Dict, Iterable, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

Rows = List[Dict[str, Any]]
# Okabe and Ito's colours, told apart with every common colour blindness; markers differ too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


def pick(rows: Rows, **settings: Any) -> Rows:
    """Rows whose columns have these values."""
    return [row for row in rows if all(row[k] == v for k, v in settings.items())]


def values(rows: Rows, column: str) -> List[Any]:
    """Distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def line(axes: Axes, rows: Rows, x: str, y: str, error: str, index: int, label: str) -> None:
    """Points with error bars, in the colour and with the marker of ``index``."""
    axes.errorbar(
        [row[x] for row in rows],
        [row[y] for row in rows],
        yerr=[row[error] for row in rows],
        color=COLOURS[index % 7],
        marker=MARKERS[index % 7],
        markersize=4.5,
        linewidth=1.2,
        capsize=2.5,
        label=label,
    )


def panels(count: int, rows: int = 1, width: float = 4.1, height: float = 3.5) -> Any:
    """A figure and its ``(rows, count)`` axes; width and height in inches a panel."""
    figure, axes = plt.subplots(
        rows,
        count,
        figsize=(width * count, height * rows),
        squeeze=False,
        layout="constrained",
    )
    for panel in axes.flat:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def whole_k(axes: Axes, sizes: Iterable[float]) -> None:
    """A tick for each block size."""
    axes.set_xticks(sorted(set(sizes)))
    axes.set_xlabel("masked sites k")
