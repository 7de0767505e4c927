"""Pictures of parameter error, joint quality and constants."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plotting import COLOURS, MARKERS, Rows, line, panels, pick, values, whole_k


def parameter_error(rows: Rows) -> Figure:
    """n times the squared error against k, a column for each loss; below it the error against n."""
    titles = {
        ("joint", 1.0): "joint block loss, one mask a sample",
        ("joint", 4.0): "joint block loss, four masks a sample",
        ("joint", 0.0): "joint block loss, all masks (caveat A)",
        ("product", 1.0): "product loss, one mask (caveat B)",
    }
    models = values(rows, "model")
    figure, axes = panels(4, len(models) + 1, 3.6, 3.1)
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
            panel.set(title=title, yscale="log")
            panel.title.set_fontsize(9.5)
            whole_k(panel, (row["k"] for row in chosen))
        # The product loss at small n has runs that went astray; they are in the CSV.
        theory = [row["n_mse_theory"] for row in pick(rows, model=model)]
        for panel in axes[i]:
            panel.set_ylim(0.75 * min(theory), 3 * max(theory))
            panel.set_yticks([30, 50, 100, 200, 500], ["30", "50", "100", "200", "500"])
            panel.set_yticks([], minor=True)
            panel.set_ylim(0.75 * min(theory), 3 * max(theory))
        axes[i][0].set_ylabel(f"{model}\nn · squared parameter error")
    axes[0][0].legend(fontsize=7.5)
    columns = [(model, loss) for model in models for loss in ("joint", "product")]
    for panel, (model, loss) in zip(axes[-1], columns):
        _against_n(panel, pick(rows, model=model, loss=loss, masks=1.0))
        panel.set_title(f"{model}: {loss} loss, one mask", fontsize=9.5)
    axes[-1][0].set_ylabel("squared parameter error")
    return figure


def _against_n(axes: Axes, rows: Rows) -> None:
    for index, k in enumerate(values(rows, "k")):
        some = pick(rows, k=k)
        line(axes, some, "n", "mse", "mse_se", index, f"k = {k:.0f}")
        expected = [row["n_mse_theory"] / row["n"] for row in some]
        axes.plot([row["n"] for row in some], expected, "--", color=COLOURS[index % 7])
    axes.set(xscale="log", yscale="log", ylim=(5e-4, 1), xlabel="samples n (dashed: theory)")
    axes.legend(fontsize=7.5)


def joint_quality(rows: Rows) -> Figure:
    """TV to the truth against k with both forms of the bound."""
    models, counts = values(rows, "model"), values(rows, "n")
    figure, axes = panels(len(models), len(counts), 4.1, 3.2)
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
            panel.set(yscale="log", ylim=(2e-3, 12), title=f"{model}, n = {n:.0f}")
            whole_k(panel, (row["k"] for row in chosen))
        axes[i][0].set_ylabel("total variation")
    axes[0][0].legend(fontsize=8)
    return figure


def constants(rows: Rows) -> Figure:
    """C_P and the interval of C_AT against k and the coupling."""
    figure, axes = panels(3)
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
        panel.set(yscale="log", title=title, ylabel="C_P (line), C_AT (band)")
        whole_k(panel, (row["k"] for row in chosen))
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
    panel.set(
        yscale="log",
        title="two cliques of four",
        xlabel="coupling J",
        ylabel="C_P (line), C_AT (band)",
    )
    panel.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    panel.set_yticks([], minor=True)
    panel.legend(fontsize=8)
    return figure
