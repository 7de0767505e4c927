"""Rows of a grid to tables with spread, and plots."""

import statistics
from pathlib import Path
from typing import Any, Dict, List, Tuple

from grid import Grid
from tabulate import tabulate

Rows = List[Dict[str, Any]]


def spread(values: List[float], form: str = "{:.2f}") -> str:
    """Mean, and half the range over the seeds: with two seeds that is all there is to say."""
    mean = form.format(statistics.fmean(values))
    if len(values) < 2:
        return mean
    return f"{mean} ± {form.format((max(values) - min(values)) / 2)}"


def by_cell(rows: Rows) -> Dict[Tuple[str, str], Rows]:
    """Rows of all seeds for each training and decoding, in the order of the grid."""
    found: Dict[Tuple[str, str], Rows] = {}
    for row in rows:
        found.setdefault((row["training"], row["decoding"]), []).append(row)
    return found


def results_table(rows: Rows) -> str:
    """One line a cell."""
    lines = []
    for (training, decoding), seeds in by_cell(rows).items():
        column = lambda key: [row[key] for row in seeds]  # noqa: B023, E731
        lines.append(
            [
                training,
                decoding,
                str(seeds[0]["updates"]),
                "{:.0f}".format(statistics.fmean(column("train_cpu_seconds"))),
                spread(column("bleu")),
                spread(column("chrf"), "{:.1f}"),
                spread(column("passes"), "{:.1f}"),
                f"{statistics.fmean(column('stutter')):.2%}",
                f"{statistics.fmean(column('length_ratio')):.3f}",
            ]
        )
    heads = [
        "training", "decoding", "updates", "CPU s", "BLEU", "chrF", "passes", "stutter", "length",
    ]  # fmt: skip
    align = ["left", "left"] + ["right"] * (len(heads) - 2)
    return tabulate(lines, heads, tablefmt="github", colalign=align, disable_numparse=True)


def comparisons_table(grid: Grid, rows: Rows) -> str:
    """Differences in BLEU, paired by seed."""
    cells = by_cell(rows)
    lines = []
    for comparison in grid.comparisons:
        sides = [
            {row["seed"]: row for row in cells.get(tuple(side), [])}
            for side in (comparison.a, comparison.b)
        ]
        shared = sorted(set(sides[0]) & set(sides[1]))
        if not shared:
            continue
        differences = [sides[1][s]["bleu"] - sides[0][s]["bleu"] for s in shared]
        cost = [sides[1][s]["train_cpu_seconds"] / sides[0][s]["train_cpu_seconds"] for s in shared]
        lines.append(
            [
                comparison.name,
                ", ".join(f"{d:+.2f}" for d in differences),
                f"{statistics.fmean(differences):+.2f}",
                f"{statistics.fmean(cost):.2f}",
            ]
        )
    if not lines:
        return ""
    heads = ["b against a", "BLEU, b - a, by seed", "mean", "training cost, b / a"]
    return tabulate(lines, heads, tablefmt="github", disable_numparse=True)


def markdown(grid: Grid, rows: Rows) -> str:
    """Both tables, with what is needed to read them."""
    seeds = sorted({row["seed"] for row in rows})
    parts = [
        results_table(rows),
        f"Seeds {', '.join(map(str, seeds))}: mean ± half the range. Split {grid.split}, "
        f"{grid.threads} thread(s). CPU s: user time of one training, its start included. "
        f"BLEU: {rows[0]['signature']}.",
    ]
    differences = comparisons_table(grid, rows)
    if differences:
        parts.append(differences)
    return "\n\n".join(parts)


def plot(rows: Rows, path: Path) -> bool:
    """BLEU against passes, one line a training, seeds as a band; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    lines: Dict[str, List[Tuple[float, List[float], str]]] = {}
    for (training, decoding), seeds in by_cell(rows).items():
        passes = statistics.fmean(row["passes"] for row in seeds)
        lines.setdefault(training, []).append((passes, [row["bleu"] for row in seeds], decoding))
    for training, points in lines.items():
        points.sort(key=lambda point: point[0])
        at = [point[0] for point in points]
        means = [statistics.fmean(point[1]) for point in points]
        axes.plot(at, means, marker="o", linewidth=1, label=training)
        axes.fill_between(at, [min(p[1]) for p in points], [max(p[1]) for p in points], alpha=0.15)
    axes.set_xlabel("decoder passes per sentence")
    axes.set_ylabel("BLEU")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True
