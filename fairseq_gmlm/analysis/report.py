"""Tables and JSON of an analysis."""

from dataclasses import asdict, fields
from typing import Any, Dict, List, Optional, Sequence

from tabulate import tabulate

from fairseq_gmlm.analysis.complexity import LABELS, Complexity
from fairseq_gmlm.analysis.dependence import Dependence
from fairseq_gmlm.analysis.error_modes import ErrorModes
from fairseq_gmlm.analysis.intervals import Rate
from fairseq_gmlm.analysis.pass_modes import PassModes

# Measures that are no shares, and how they are printed.
_NUMBERS = {"length_ratio": 3, "length_error": 2, "teacher_surprise": 3}
_NAMES = {
    "length_error": "length error, tokens",
    "teacher_surprise": "teacher's surprise, nats a token",
    "teacher_agreement": "teacher would choose the token",
    "same_as_teacher": "same as the teacher's translation",
    "absent_bigrams": "bigrams absent from the teacher's list",
    "mixed_bigrams": "  of which both tokens are in it",
}


def label(name: str) -> str:
    """A measure's name in a table."""
    return _NAMES.get(name, name.replace("_", " "))


def shown(rate: Optional[Rate], digits: Optional[int] = None, interval: bool = True) -> str:
    """A share in per cent, or a number with ``digits`` decimals, with its interval."""
    if rate is None or rate.value is None:
        return "-"
    scale, places = (100, 2) if digits is None else (1, digits)
    text = f"{scale * rate.value:.{places}f}" + ("%" if digits is None else "")
    if not interval or rate.low is None:
        return text
    return f"{text} [{scale * rate.low:.{places}f}, {scale * rate.high:.{places}f}]"


def _table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    align = ["left", *["right"] * (len(headers) - 1)]
    return tabulate(rows, headers, colalign=align, disable_numparse=True)


def measures_table(texts: Dict[str, Dict[str, Rate]]) -> str:
    """Measures by text, with 95 % intervals."""
    names = list(texts["output"])
    rows = [
        [label(name), *(shown(text[name], _NUMBERS.get(name)) for text in texts.values())]
        for name in names
    ]
    return _table(rows, ["", *texts])


def passes_table(passes: Sequence[PassModes]) -> str:
    """One row for each pass."""
    skip = {"number", "running"}
    names = [
        item.name
        for item in fields(PassModes)
        if item.name not in skip and any(getattr(p, item.name) is not None for p in passes)
    ]
    rows = [
        [str(p.number), str(p.running), *(shown(getattr(p, n), interval=False) for n in names)]
        for p in passes
    ]
    return _table(rows, ["pass", "running", *(name.replace("_", " ") for name in names)])


def dependence_table(found: Dict[str, Dependence]) -> str:
    """Attention between neighbours and on the source, by pass."""
    rows = []
    for name, each in found.items():
        rows.append(
            [
                name,
                f"{each.stutter.total:.0f}",
                *(shown(r, 4, False) for r in (each.stutter, each.adjacent, each.distant)),
                shown(each.difference, 4),
                shown(each.within, 4),
                *(shown(r, 3, False) for r in (each.entropy_stutter, each.entropy_other)),
                shown(each.entropy_difference, 3),
            ]
        )
    headers = [
        "pass", "stutters", "stutter", "adjacent", "distant", "stutter - adjacent",
        "in a sentence", "entropy, stutter", "other", "difference",
    ]  # fmt: skip
    return _table(rows, headers)


def complexity_table(found: Dict[str, Complexity]) -> str:
    """A column for each data set, and the ratio of the last to the first."""
    rows: List[List[str]] = []
    for name, text in LABELS.items():
        values = [getattr(each, name) for each in found.values()]
        row = [text, *(f"{v:,}" if isinstance(v, int) else f"{v:.4f}" for v in values)]
        if len(values) > 1:
            row.append(f"{values[-1] / values[0]:.3f}" if values[0] else "-")
        rows.append(row)
    return _table(rows, ["", *found, *(["last / first"] if len(found) > 1 else [])])


def text_report(modes: ErrorModes) -> str:
    """All tables of an analysis, with headings."""
    parts = [
        f"{modes.sentences} sentences, {modes.passes:.2f} passes each, "
        f"{modes.mask_leftovers} masks left in the outputs",
        measures_table(modes.texts),
    ]
    if modes.per_pass:
        parts += ["Pass by pass (a sentence that has stopped keeps its last draft)"]
        parts += [passes_table(modes.per_pass)]
    if modes.dependence:
        parts += ["Attention between positions predicted in the same pass"]
        parts += [dependence_table(modes.dependence)]
    return "\n\n".join(parts)


def as_json(modes: ErrorModes) -> Dict[str, Any]:
    """Plain numbers under the names of the dataclasses."""
    return asdict(modes)
