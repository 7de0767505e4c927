"""Pictures of mixing, escape and two hundred spins."""

from matplotlib.figure import Figure
from plotting import COLOURS, Rows, line, panels, pick, values

CHAINS = {
    "block_gibbs 1": ("k-Gibbs, k=1", COLOURS[0], "-"),
    "block_gibbs 2": ("k-Gibbs, k=2", COLOURS[5], "-"),
    "block_gibbs 5": ("k-Gibbs, k=5", COLOURS[2], "-"),
    "masked_product 2": ("masked-product, k=2", COLOURS[4], "--"),
    "masked_product 5": ("masked-product, k=5", COLOURS[1], "--"),
    "synchronous 0": ("synchronous", COLOURS[3], ":"),
}


def mixing(rows: Rows) -> Figure:
    """TV to the model against steps; markers are simulations."""
    couplings, starts = values(rows, "J"), values(rows, "start")
    figure, axes = panels(len(couplings), len(starts), 3.7, 3.1)
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
            panel.set(xscale="log", ylim=(-0.03, 1.0), title=f"J = {j:g}, start: {title}")
            panel.set_xlabel("steps")
        axes[i][0].set_ylabel("TV to the model")
    axes[0][0].legend(fontsize=7.5)
    return figure


def escape(rows: Rows) -> Figure:
    """Expected time from all minus to all plus, and the probability to leave, against J."""
    figure, axes = panels(2, width=5)
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
    right.set(yscale="log", xlabel="coupling J", ylabel="P(leave all minus in one step)")
    left.set_title("from all minus to all plus (markers: simulated, two s.e.)", fontsize=10)
    right.set_title("the first step", fontsize=10)
    left.legend(fontsize=8)
    return figure


def large(rows: Rows) -> Figure:
    """Mean spin, and how many cliques agree, of two hundred sites against steps."""
    names = {
        ("block_gibbs", 1.0, "uniform"): "k-Gibbs, k=1",
        ("block_gibbs", 5.0, "uniform"): "k-Gibbs, k=5, uniform blocks",
        ("block_gibbs", 5.0, "cliques"): "k-Gibbs, k=5, blocks = cliques",
        ("masked_product", 5.0, "cliques"): "masked-product, blocks = cliques",
        ("synchronous", 0.0, ""): "synchronous",
    }
    couplings = values(rows, "J")
    figure, axes = panels(len(couplings), 2, 5, 3.1)
    for i, (column, label) in enumerate(
        (("mean_spin", "mean spin"), ("agreement", "cliques that agree"))
    ):
        for panel, j in zip(axes[i], couplings):
            for index, ((chain, k, blocks), name) in enumerate(names.items()):
                some = pick(rows, J=j, chain=chain, k=k, blocks=blocks)
                some = [row for row in some if row["step"] >= 1]
                line(panel, some, "step", column, f"{column}_se", index, name)
            exact = pick(rows, J=j)[0][f"exact_{column}"]
            panel.axhline(exact, color="black", linestyle="--", label="exact")
            panel.set(xscale="log", title=f"J = {j:g}", xlabel="steps", ylabel=label)
    handles = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8)
    return figure
