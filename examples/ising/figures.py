"""Pictures of the experiments, drawn from their CSVs alone."""

import csv
import io
from pathlib import Path
from typing import Any, Callable, Dict

import learning_figures
import matplotlib.pyplot as plt
import neural_figure
import sampling_figures
from matplotlib.figure import Figure
from PIL import Image
from plotting import Rows

PICTURES: Dict[str, Callable[[Rows], Figure]] = {
    "parameter_error": learning_figures.parameter_error,
    "joint_quality": learning_figures.joint_quality,
    "constants": learning_figures.constants,
    "mixing": sampling_figures.mixing,
    "escape": sampling_figures.escape,
    "large": sampling_figures.large,
    "neural": neural_figure.neural,
}


def draw(name: str, folder: Path) -> None:
    """Draw ``<name>.png`` from ``<name>.csv`` in ``folder``."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [{k: _read(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    figure = PICTURES[name](rows)
    figure.savefig(buffer := io.BytesIO(), format="png", dpi=100)
    plt.close(figure)
    # A palette makes the files a third as large, and these pictures have few colours.
    Image.open(buffer).convert("RGB").quantize(128).save(folder / f"{name}.png", optimize=True)


def _read(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
