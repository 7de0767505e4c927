"""Pictures of a comparison: quality against latency and passes, both by source length."""

import logging
from typing import Any, Dict, List, Sequence, Tuple

from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.errors import UserError

# Okabe and Ito's colours, which colour-blind readers tell apart, and which show on light and dark.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#7f7f7f"


def import_matplotlib() -> Any:
    """matplotlib, set to draw files.

    Raises:
        UserError: when it is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(
            "--html and --plots draw with matplotlib: pip install 'fairseq-gmlm[plot]', or leave "
            "them out"
        ) from error
    matplotlib.use("Agg")
    # Other packages lower the root logger's level, and matplotlib then tells of every font.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    return matplotlib


def pareto_front(points: Sequence[Tuple[float, float]]) -> List[int]:
    """Numbers of the points (cost, quality) that no other point beats in both, cheapest first.

    >>> pareto_front([(1, 10), (2, 9), (3, 12)])
    [0, 2]
    """
    front: List[int] = []
    best = float("-inf")
    for number in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if points[number][1] > best:
            front.append(number)
            best = points[number][1]
    return front


def _styles(rows: List[Row]) -> Dict[str, Tuple[str, str]]:
    """Colour and marker of each kind of system."""
    kinds = list(dict.fromkeys(row.system for row in rows))
    return {
        kind: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, kind in enumerate(kinds)
    }


def _axes(ink: str, width: float, panels: int = 1) -> Tuple[Any, List[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.2), layout="constrained")
    figure.patch.set_alpha(0)
    found = list(figure.subplots(1, panels, squeeze=False)[0])
    for axes in found:
        axes.patch.set_alpha(0)
        axes.tick_params(which="both", colors=ink)
        for spine in axes.spines.values():
            spine.set_color(ink)
        axes.grid(True, color=GREY, alpha=0.3, linewidth=0.6)
    return figure, found


def _label(axes: Any, ink: str, x: str, y: str) -> None:
    axes.set_xlabel(x, color=ink)
    axes.set_ylabel(y, color=ink)


def _scatter(axes: Any, rows: List[Row], costs: List[float], ink: str) -> None:
    """Points numbered as the table's rows, with deviations as bars and a legend of kinds."""
    styles = _styles(rows)
    named = set()
    for number, (row, cost) in enumerate(zip(rows, costs), 1):
        colour, marker = styles[row.system]
        label = None if row.system in named else row.system
        named.add(row.system)
        axes.errorbar(
            [cost], [row.bleu], yerr=row.bleu_std, color=colour, marker=marker, linestyle="none",
            capsize=2, label=label,
        )  # fmt: skip
        axes.annotate(
            str(number), (cost, row.bleu), xytext=(5, 4), textcoords="offset points",
            color=ink, fontsize=8,
        )  # fmt: skip
    axes.set_xscale("log")
    _plain_ticks(axes.xaxis)
    axes.legend(frameon=False, labelcolor=ink, fontsize=8)


def _plain_ticks(axis: Any) -> None:
    """1, 2, 5, 10, 20 ... on a logarithmic axis, rather than powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def quality_latency(rows: List[Row], ink: str) -> Any:
    """BLEU against milliseconds, and the systems that none beats in both."""
    figure, (axes,) = _axes(ink, 7)
    points = [(row.latency_ms, row.bleu) for row in rows]
    front = [points[i] for i in pareto_front(points)]
    axes.step(
        *zip(*front), where="post", color=GREY, linestyle="--", linewidth=1, label="Pareto front"
    )
    _scatter(axes, rows, [x for x, _ in points], ink)
    _label(axes, ink, "ms per sentence, batch 1 (log)", "BLEU")
    return figure


def quality_passes(rows: List[Row], ink: str) -> Any:
    """BLEU against decoder passes."""
    figure, (axes,) = _axes(ink, 7)
    _scatter(axes, rows, [max(row.passes, 1e-3) for row in rows], ink)
    _label(axes, ink, "decoder passes per sentence (log)", "BLEU")
    return figure


def source_length(rows: List[Row], ink: str) -> Any:
    """BLEU and latency in groups of sources of like length."""
    figure, (left, right) = _axes(ink, 10, panels=2)
    styles = _styles(rows)
    lines = ("-", "--", "-.", ":")
    for number, row in enumerate(rows):
        colour, marker = styles[row.system]
        style = {
            "color": colour, "marker": marker, "linestyle": lines[number % len(lines)],
            "linewidth": 1, "markersize": 4, "label": f"{number + 1} {row.name}",
        }  # fmt: skip
        places = range(len(row.buckets))
        left.plot(places, [part["bleu"] for part in row.buckets], **style)
        timed = [part["latency_ms"] for part in row.buckets]
        known = [i for i in places if timed[i] is not None]
        right.plot(known, [timed[i] for i in known], **style)
    names = [f"{part['shortest']}-{part['longest']}" for part in rows[0].buckets]
    for axes, name in ((left, "BLEU"), (right, "ms per sentence, batch 1 (log)")):
        axes.set_xticks(range(len(names)), names)
        _label(axes, ink, "source subwords", name)
    right.set_yscale("log")
    _plain_ticks(right.yaxis)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, labelcolor=ink,
        fontsize=7,
    )  # fmt: skip
    figure.set_figheight(4.2 + 0.1 * len(rows))
    return figure


FIGURES = {
    "quality_latency": quality_latency,
    "quality_passes": quality_passes,
    "source_length": source_length,
}
TITLES = {
    "quality_latency": "Quality against latency",
    "quality_passes": "Quality against passes",
    "source_length": "Quality and speed by source length",
}


def draw(rows: List[Row], ink: str) -> Dict[str, Any]:
    """Figures of matplotlib by name.

    Args:
        ink: colour of text and axes.

    Raises:
        UserError: matplotlib is missing.
    """
    matplotlib = import_matplotlib()
    # A dollar in a name is a dollar, not the start of a formula; text stays text in SVG.
    with matplotlib.rc_context({"text.parse_math": False}):
        return {
            name: figure(rows, ink)
            for name, figure in FIGURES.items()
            if name != "source_length" or rows[0].buckets
        }
