"""The one-page picture of the neural experiment: learning above, sampling below."""

import math
from typing import List, Tuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plotting import COLOURS, MARKERS, Rows, panels, pick, values

TRAININGS = {"one site": "one site masked", "uniform sizes": "uniform mask sizes"}
CHAINS = [
    ("block_gibbs", 1.0, "one site at a time (k=1)"),
    ("masked_product", 3.0, "masked-product, k=3"),
    ("masked_product", 5.0, "masked-product, k=5"),
    ("synchronous", 0.0, "synchronous"),
    ("block_gibbs", 5.0, "all five, one after the other"),
]


def over_seeds(rows: Rows) -> Tuple[float, float]:
    """Mean and standard error of ``value`` over rows that differ by the seed."""
    found = [row["value"] for row in rows]
    mean = sum(found) / len(found)
    if len(found) == 1:
        return mean, 0.0
    variance = sum((value - mean) ** 2 for value in found) / (len(found) - 1)
    return mean, math.sqrt(variance / len(found))


def neural(rows: Rows) -> Figure:
    """Four panels for each coupling: two on learning, two on sampling."""
    couplings = values(rows, "J")
    figure, axes = panels(4, len(couplings), 3.7, 3.3)
    counts = sorted({row["n"] for row in rows if row["n"] != ""})
    for line, j in zip(axes, couplings):
        here = pick(rows, J=j)
        _conditional_errors(line[0], pick(here, quantity="conditional_error"), counts[0])
        line[0].set_title(f"J = {j:g}: conditionals, n = {counts[0]:.0f}", fontsize=10)
        _joint_errors(line[1], pick(here, quantity="stationary_tv"), counts)
        line[1].set_title(f"J = {j:g}: learned joint", fontsize=10)
        _biases(line[2], pick(here, quantity="stationary_tv"), counts[-1])
        line[2].set_title(f"J = {j:g}: where the chains end", fontsize=10)
        _curves(line[3], pick(here, quantity="tv"), counts[-1])
        line[3].set_title(f"J = {j:g}: from all minus", fontsize=10)
    return figure


def _conditional_errors(axes: Axes, rows: Rows, n: float) -> None:
    for index, (training, label) in enumerate(TRAININGS.items()):
        some = pick(rows, training=training, n=n)
        sizes = values(some, "k")
        points = [over_seeds(pick(some, k=k)) for k in sizes]
        _bars(axes, sizes, points, index, label)
    axes.set(yscale="log", xlabel="hidden sites k", ylabel="KL to the exact law, nats a token")
    axes.legend(fontsize=8)


def _joint_errors(axes: Axes, rows: Rows, counts: List[float]) -> None:
    # What was trained on single sites defines a joint through its 1-Gibbs chain; asked to generate
    # from nothing it meets masks that it never saw.
    for index, (training, k, label) in enumerate(
        (
            ("one site", 5.0, "one site masked, any-order"),
            ("uniform sizes", 5.0, "uniform mask sizes, any-order"),
            ("one site", 1.0, "one site masked, its 1-Gibbs chain"),
            ("uniform sizes", 1.0, "uniform mask sizes, 1-Gibbs chain"),
        )
    ):
        some = pick(rows, training=training, chain="block_gibbs", k=k)
        points = [over_seeds(pick(some, n=n)) for n in counts]
        _bars(axes, counts, points, index, label)
    axes.set(xscale="log", yscale="log", ylim=(5e-3, 12), xlabel="training samples n")
    axes.set_xticks(counts, [f"{n:.0f}" for n in counts])
    axes.set_xticks([], minor=True)
    axes.set_ylabel("TV to the truth")
    axes.legend(fontsize=7, loc="upper left")


def _biases(axes: Axes, rows: Rows, n: float) -> None:
    for index, (chain, label) in enumerate(
        (("block_gibbs", "one after the other"), ("masked_product", "in parallel"))
    ):
        some = pick(rows, training="uniform sizes", n=n, chain=chain)
        sizes = values(some, "k")
        points = [over_seeds(pick(some, k=k)) for k in sizes]
        _bars(axes, sizes, points, index + 2, f"block of k, {label}")
        exact = pick(rows, training="exact", chain=chain)
        axes.plot(sizes, [row["value"] for row in exact], "--", color=COLOURS[index + 2])
    axes.set(xlabel="block size k", ylabel="TV of the stationary law to the truth")
    axes.legend(fontsize=8, title="dashed: exact conditionals", title_fontsize=8)


def _curves(axes: Axes, rows: Rows, n: float) -> None:
    for index, (chain, k, label) in enumerate(CHAINS):
        some = pick(rows, training="uniform sizes", n=n, chain=chain, k=k)
        # Filling a block one after the other takes a pass of the network for each site.
        passes = k if chain == "block_gibbs" else 1
        steps = [step for step in values(some, "step") if step >= 1]
        points = [over_seeds(pick(some, step=step)) for step in steps]
        _bars(axes, [passes * step for step in steps], points, index, label)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="passes of the network", ylabel="TV to the truth")
    axes.legend(fontsize=7)


def _bars(
    axes: Axes, x: List[float], points: List[Tuple[float, float]], index: int, label: str
) -> None:
    axes.errorbar(
        x,
        [mean for mean, _ in points],
        yerr=[error for _, error in points],
        color=COLOURS[index],
        marker=MARKERS[index],
        markersize=4,
        linewidth=1.2,
        capsize=2.5,
        label=label,
    )
