"""Figures of an analysis: stutter by pass, modes by pass, attention at stutter."""

import logging
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

from fairseq_gmlm.analysis.error_modes import ErrorModes
from fairseq_gmlm.analysis.intervals import Rate
from fairseq_gmlm.errors import UserError

FORMATS = ("png", "svg")


def _pyplot() -> Any:
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of every font it meets
    try:
        import matplotlib
    except ImportError as error:
        raise UserError("--plots needs matplotlib: pip install 'fairseq-gmlm[plot]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


Line = Tuple[Sequence[Optional[Rate]], str]  # a rate in each pass, and its name


def _line(axes: Any, rates: Sequence[Rate], name: str, marker: str, color: str) -> None:
    """Per cent over passes, with the interval as a band."""
    points = [(n, r) for n, r in enumerate(rates, 1) if r is not None and r.value is not None]
    numbers = [n for n, _ in points]
    axes.plot(numbers, [100 * r.value for _, r in points], marker=marker, label=name, color=color)
    banded = [(n, r) for n, r in points if r.low is not None]
    axes.fill_between(
        [n for n, _ in banded],
        [100 * r.low for _, r in banded],
        [100 * r.high for _, r in banded],
        alpha=0.2,
        color=color,
        linewidth=0,
    )


def _passes_axes(axes: Any, count: int, ylabel: str) -> None:
    axes.set_xticks(range(1, count + 1))
    axes.set_xlabel("pass")
    axes.set_ylabel(ylabel)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _per_pass(
    pyplot: Any, first: Line, second: Line, reference: Rate, name: str, ylabel: str
) -> Any:
    """Two rates over the passes, beside that of the references."""
    figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
    _line(axes, *first, "o", "C0")
    _line(axes, *second, "s", "C1")
    if reference.value is not None:
        axes.axhline(100 * reference.value, color="0.3", linestyle="--", label=name)
    _passes_axes(axes, len(first[0]), ylabel)
    return figure


def stutter_figure(pyplot: Any, modes: ErrorModes) -> Any:
    """Stutter before and after remasking, beside the references'."""
    before = [p.stutter_before for p in modes.per_pass], "before remasking"
    after = [p.stutter_after for p in modes.per_pass], "after remasking"
    reference = modes.texts["references"]["stutter"]
    return _per_pass(pyplot, before, after, reference, "references", "stutter, % of tokens")


def modes_figure(pyplot: Any, modes: ErrorModes) -> Any:
    """Bigrams that the teacher's list does not have."""
    absent = [p.absent_bigrams for p in modes.per_pass], "absent"
    mixed = [p.mixed_bigrams for p in modes.per_pass], "absent, both tokens known"
    reference = modes.texts["references"]["absent_bigrams"]
    return _per_pass(pyplot, absent, mixed, reference, "references, absent", "% of bigrams")


def dependence_figure(pyplot: Any, modes: ErrorModes) -> Any:
    """Attention between neighbours where the chain stutters and where it does not."""
    figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
    passes = [each for name, each in modes.dependence.items() if name != "all"]
    kinds = (("stutter", "o", "C0"), ("adjacent", "s", "C1"), ("distant", "^", "C2"))
    for shift, (kind, marker, color) in enumerate(kinds):
        points = [(n, getattr(each, kind)) for n, each in enumerate(passes, 1)]
        points = [(n + 0.12 * (shift - 1), r) for n, r in points if r.low is not None]
        axes.errorbar(
            [n for n, _ in points],
            [r.value for _, r in points],
            yerr=[
                [r.value - r.low for _, r in points],
                [r.high - r.value for _, r in points],
            ],
            fmt=marker,
            color=color,
            capsize=2,
            label=kind,
        )
    _passes_axes(axes, len(passes), "attention between positions")
    return figure


def write_plots(folder: Path, modes: ErrorModes) -> List[Path]:
    """Write PNG and SVG files.

    Raises:
        UserError: matplotlib is not installed, or there is no chain to plot.
    """
    if not modes.per_pass:
        raise UserError("--plots: figures are made of chains; this model keeps no history")
    pyplot = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"stutter": stutter_figure, "dependence": dependence_figure}
    if "teacher" in modes.texts:
        figures["mixed_modes"] = modes_figure
    written = []
    for name, draw in figures.items():
        figure = draw(pyplot, modes)
        for kind in FORMATS:
            path = folder / f"{name}.{kind}"
            figure.savefig(path, dpi=150)
            written.append(path)
        pyplot.close(figure)
    return written
