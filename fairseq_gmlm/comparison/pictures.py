"""Figures as files, and as SVG that a page can hold."""

import io
import re
from pathlib import Path
from typing import Any, Dict, List

from fairseq_gmlm.comparison.plots import draw, import_matplotlib
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.data.files import atomic_write

# Not a colour that anything else has: the page's own text colour takes its place.
_INK = "#010203"
_OUTSIDE = re.compile(
    r"<metadata>.*?</metadata>|\s(?:xmlns(?::\w+)?|version|id)=\"(?:http[^\"]*|1\.1|[A-Za-z][\w.]*_\d+)\"",
    re.DOTALL,
)


def _svg(figure: Any, salt: str) -> str:
    """SVG text; ``salt`` keeps the ids of several pictures in one page apart."""
    matplotlib = import_matplotlib()
    stream = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False}
    with matplotlib.rc_context(settings):
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    return stream.getvalue()


def inline_pictures(rows: List[Row]) -> Dict[str, str]:
    """``<svg>`` elements by name, in the colour of the text around them, with no address in them.

    Raises:
        UserError: matplotlib is missing.
    """
    found = {}
    for name, figure in draw(rows, _INK).items():
        text = _svg(figure, name)
        text = _OUTSIDE.sub("", text[text.index("<svg") :])
        found[name] = text.replace(_INK, "currentColor").strip()
    return found


def write_pictures(rows: List[Row], folder: Path) -> None:
    """``NAME.png`` and ``NAME.svg`` of each figure, black on white.

    Raises:
        UserError: matplotlib is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in draw(rows, "black").items():
        figure.patch.set_alpha(1)
        with atomic_write(folder / f"{name}.png", binary=True) as stream:
            figure.savefig(stream, format="png", dpi=150, facecolor="white")
        with atomic_write(folder / f"{name}.svg") as stream:
            stream.write(_svg(figure, name))
