"""Pictures of the experiments, drawn from their CSVs alone."""

import csv
import math
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Rows = List[Dict[str, Any]]
# Okabe and Ito's colours, told apart with every common colour blindness; markers differ too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
CHAINS = {
    "block_gibbs 1": ("k-Gibbs, k=1", COLOURS[0], "-"),
    "block_gibbs 2": ("k-Gibbs, k=2", COLOURS[5], "-"),
    "block_gibbs 5": ("k-Gibbs, k=5", COLOURS[2], "-"),
    "masked_product 2": ("masked-product, k=2", COLOURS[4], "--"),
    "masked_product 5": ("masked-product, k=5", COLOURS[1], "--"),
    "synchronous 0": ("synchronous", COLOURS[3], ":"),
}


def draw(name: str, folder: Path) -> None:
    """Draw ``<name>.png`` from ``<name>.csv`` in ``folder``."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [{k: _read(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    figure = PICTURES[name](rows)
    figure.savefig(folder / f"{name}.png", dpi=90)
    plt.close(figure)


def _read(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


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


def _panels(count: int, rows: int = 1, width: float = 4.1, height: float = 3.5) -> Any:
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


def _whole_k(axes: Axes, sizes: Iterable[float]) -> None:
    axes.set_xticks(sorted(set(sizes)))
    axes.set_xlabel("masked sites k")


def parameter_error(rows: Rows) -> Figure:
    """n times the squared error against k: one column for each loss, one row for each model."""
    titles = {
        ("joint", 1.0): "joint block loss, one mask a sample",
        ("joint", 4.0): "joint block loss, four masks a sample",
        ("joint", 0.0): "joint block loss, all masks (caveat A)",
        ("product", 1.0): "product loss, one mask (caveat B)",
    }
    models = values(rows, "model")
    figure, axes = _panels(4, len(models), 3.6, 3.3)
    for i, model in enumerate(models):
        for panel, ((loss, masks), title) in zip(axes[i], titles.items()):
            chosen = pick(rows, model=model, loss=loss, masks=masks)
            scaled = [
                {**row, "y": row["n"] * row["mse"], "e": row["n"] * row["mse_se"]} for row in chosen
            ]
            for index, n in enumerate(values(scaled, "n")):
                line(panel, pick(scaled, n=n), "k", "y", "e", index, f"n = {n:.0f}")
            theory = pick(chosen, n=chosen[0]["n"])
            panel.plot(
                [row["k"] for row in theory],
                [row["n_mse_theory"] for row in theory],
                "k--",
                linewidth=1.6,
                zorder=5,
                label="theory (n to infinity)",
            )
            panel.set(title=f"{model}: {title}" if i < 0 else title, yscale="log")
            panel.title.set_fontsize(9.5)
            _whole_k(panel, (row["k"] for row in chosen))
        limits = [panel.get_ylim() for panel in axes[i]]
        for panel in axes[i]:
            panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
            panel.yaxis.set_major_formatter("{x:.0f}")
            panel.yaxis.set_minor_formatter("{x:.0f}")
            panel.tick_params(which="minor", labelsize=7)
        axes[i][0].set_ylabel(f"{model}\nn · squared parameter error")
    axes[0][0].legend(fontsize=7.5)
    return figure


def joint_quality(rows: Rows) -> Figure:
    """TV to the truth against k with both forms of the bound."""
    models, counts = values(rows, "model"), values(rows, "n")
    figure, axes = _panels(len(models), len(counts), 4.1, 3.2)
    for i, n in enumerate(counts):
        for panel, model in zip(axes[i], models):
            chosen = pick(rows, model=model, n=n)
            for index, (column, label) in enumerate(
                (
                    ("total_variation", "TV(learned, truth), exact"),
                    ("total_variation_bound_lower", "bound with the C_AT found"),
                    ("total_variation_bound", "bound with a proven C_AT"),
                )
            ):
                line(panel, chosen, "k", column, f"{column}_se", index, label)
            panel.set(yscale="log", title=f"{model}, n = {n:.0f}")
            _whole_k(panel, (row["k"] for row in chosen))
        axes[i][0].set_ylabel("total variation")
    axes[0][0].legend(fontsize=8)
    return figure


def constants(rows: Rows) -> Figure:
    """C_P and the interval of C_AT against k and the coupling."""
    figure, axes = _panels(3)
    for panel, model, title in (
        (axes[0][0], "dense", "random dense, N=5, ten models"),
        (axes[0][1], "clique5", "fully coupled, N=5, field 0.2"),
    ):
        chosen = pick(rows, model=model)
        for index, scale in enumerate(values(chosen, "scale")):
            some = pick(chosen, scale=scale)
            x = [row["k"] for row in some]
            label = f"couplings ~ N(0, {scale:g}²)" if model == "dense" else f"J = {scale:g}"
            y = [row["poincare"] for row in some]
            bars = [
                [value * (1 - math.exp(-row["poincare_log_se"])) for value, row in zip(y, some)],
                [value * (math.exp(row["poincare_log_se"]) - 1) for value, row in zip(y, some)],
            ]
            colour = COLOURS[index]
            panel.errorbar(
                x, y, bars, color=colour, marker=MARKERS[index], markersize=4.5, capsize=2.5,
                linewidth=1.2, label=label,
            )  # fmt: skip
            low, high = ([row[f"entropy_{end}"] for row in some] for end in ("lower", "upper"))
            panel.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
        panel.set(yscale="log", title=title, ylabel="C_P (line), C_AT (inside the band)")
        _whole_k(panel, (row["k"] for row in chosen))
        panel.legend(fontsize=8)
    panel = axes[0][2]
    for index, blocks in enumerate(("uniform", "cliques")):
        some = pick(rows, model="cliques4+4", blocks=blocks)
        x = [row["scale"] for row in some]
        panel.plot(
            x, [row["poincare"] for row in some], color=COLOURS[index], marker=MARKERS[index],
            label="uniform blocks of 4" if blocks == "uniform" else "the cliques as blocks",
        )  # fmt: skip
        low, high = ([row[f"entropy_{end}"] for row in some] for end in ("lower", "upper"))
        panel.fill_between(x, low, high, color=COLOURS[index], alpha=0.13, linewidth=0)
    panel.set(yscale="log", title="two cliques of four", xlabel="coupling J")
    panel.legend(fontsize=8)
    return figure


def mixing(rows: Rows) -> Figure:
    """TV to the model against steps; markers are simulations."""
    couplings, starts = values(rows, "J"), values(rows, "start")
    figure, axes = _panels(len(couplings), len(starts), 3.7, 3.1)
    for i, start in enumerate(starts):
        for panel, j in zip(axes[i], couplings):
            for key, (label, colour, style) in CHAINS.items():
                chain, k = key.split()
                some = pick(rows, J=j, start=start, chain=chain, k=float(k))
                shown = [row for row in some if row["step"] >= 1]
                x = [row["step"] for row in shown]
                panel.plot(x, [row["tv"] for row in shown], style, color=colour, label=label)
                points = [row for row in shown if row["simulated_tv"] != ""]
                panel.errorbar(
                    [row["step"] for row in points],
                    [row["simulated_tv"] for row in points],
                    yerr=[row["simulated_sd"] for row in points],
                    color=colour, fmt="o", markersize=3, capsize=2, linewidth=0.8,
                )  # fmt: skip
            panel.axhline(0.1, color="grey", linewidth=0.8)
            title = "all minus" if start == "minus" else "uniform"
            panel.set(xscale="log", ylim=(0, 1.02), title=f"J = {j:g}, start: {title}")
            panel.set_xlabel("steps")
        axes[i][0].set_ylabel("TV to the model")
    axes[0][0].legend(fontsize=7.5)
    return figure


def escape(rows: Rows) -> Figure:
    """Expected time from all minus to all plus, and the probability to leave, against J."""
    figure, axes = _panels(2, width=5)
    for key, (label, colour, style) in CHAINS.items():
        chain, k = key.split()
        some = pick(rows, chain=chain, k=float(k))
        x = [row["J"] for row in some]
        left, right = axes[0]
        left.plot(x, [row["hitting_time"] for row in some], style, color=colour, label=label)
        points = [row for row in some if row["simulated"] != ""]
        left.errorbar(
            [row["J"] for row in points],
            [row["simulated"] for row in points],
            yerr=[2 * row["simulated_se"] for row in points],
            color=colour, fmt="o", markersize=3.5, capsize=2, linewidth=0.8,
        )  # fmt: skip
        right.plot(x, [row["exit_probability"] for row in some], style, color=colour, label=label)
    left.set(yscale="log", xlabel="coupling J", ylabel="expected steps to all plus")
    right.set(yscale="log", xlabel="coupling J", ylabel="probability to leave all minus in a step")
    left.set_title("from all minus to all plus (markers: simulated, two s.e.)", fontsize=10)
    right.set_title("first step", fontsize=10)
    left.legend(fontsize=8)
    return figure


def large(rows: Rows) -> Figure:
    """Mean spin of two hundred sites against steps."""
    names = {
        ("block_gibbs", 1.0, "uniform"): "k-Gibbs, k=1",
        ("block_gibbs", 5.0, "uniform"): "k-Gibbs, k=5, uniform blocks",
        ("block_gibbs", 5.0, "cliques"): "k-Gibbs, k=5, blocks = cliques",
        ("masked_product", 5.0, "cliques"): "masked-product, blocks = cliques",
        ("synchronous", 0.0, ""): "synchronous",
    }
    couplings = values(rows, "J")
    figure, axes = _panels(len(couplings), width=5)
    for panel, j in zip(axes[0], couplings):
        for index, ((chain, k, blocks), label) in enumerate(names.items()):
            some = pick(rows, J=j, chain=chain, k=k, blocks=blocks)
            some = [row for row in some if row["step"] >= 1]
            line(panel, some, "step", "mean_spin", "mean_spin_se", index, label)
        panel.axhline(rows[[row["J"] for row in rows].index(j)]["exact"], color="black", ls="--")
        panel.set(xscale="log", title=f"J = {j:g}", xlabel="steps", ylabel="mean spin")
    axes[0][0].legend(fontsize=7.5, title="dashed: exact", title_fontsize=7.5)
    return figure


def draw_neural(rows: Rows) -> Figure:
    """Imported late: the one-page picture has a file of its own."""
    from neural_figure import neural

    return neural(rows)


PICTURES: Dict[str, Callable[[Rows], Figure]] = {
    "parameter_error": parameter_error,
    "joint_quality": joint_quality,
    "constants": constants,
    "mixing": mixing,
    "escape": escape,
    "large": large,
    "neural": draw_neural,
}
