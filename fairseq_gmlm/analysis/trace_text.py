"""Traces for the terminal: marks and numbers under each token, colour on top where it is wanted."""

import unicodedata
from typing import List, Optional, Sequence

from fairseq_gmlm.analysis.tracing import Cell, SentenceTrace, TracedChain

LEGEND = (
    "under each token: its probability in per cent; before it * new token, = predicted again, "
    "blank: not predicted; after it x taken back at once, _ masked for the next pass"
)
# (probability from which, ANSI codes): the surer, the plainer.
_COLOURS = ((0.9, ""), (0.7, "30;48;5;230"), (0.5, "30;48;5;222"), (0.3, "30;48;5;214"))
_LEAST = "97;48;5;130"
_MARGIN = 10


def width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def printable(text: str) -> str:
    """Without control characters, which could steer the terminal."""
    return "".join(c if unicodedata.category(c) not in ("Cc", "Cf") else "\ufffd" for c in text)


def _padded(text: str, columns: int, shown: Optional[str] = None) -> str:
    """``text``, or what is ``shown`` for it, and spaces up to so many columns."""
    return (text if shown is None else shown) + " " * (columns - width(text))


def note(cell: Cell) -> str:
    """What stands under a token.

    >>> note(Cell("a", 0.25, True, True, False, True, True))
    '*25x_'
    """
    front = "*" if cell.changed else "=" if cell.predicted else " "
    percent = "" if cell.probability is None else f"{100 * cell.probability:.0f}"
    return front + percent + "x" * cell.rejected + "_" * cell.remasked


def _coloured(text: str, cell: Cell) -> str:
    if cell.probability is None:
        return text
    code = next((c for floor, c in _COLOURS if cell.probability >= floor), _LEAST)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _blocks(widths: Sequence[int], room: int) -> List[range]:
    """Positions that fit beside each other."""
    found, start, used = [], 0, 0
    for place, size in enumerate(widths):
        if place > start and used + size + 1 > room:
            found.append(range(start, place))
            start, used = place, 0
        used += size + 1
    return [*found, range(start, len(widths))]


def _chain(chain: TracedChain, room: int, colour: bool) -> List[str]:
    rows = [[printable(t) for t in chain.start]]
    rows += [[printable(cell.token) for cell in each.cells] for each in chain.passes]
    rows += [[note(cell) for cell in each.cells] for each in chain.passes]
    rows.append([printable(t) if t is not None else "-" for t in chain.output])
    widths = [max(map(width, column)) for column in zip(*rows)]
    lines = []
    for block in _blocks(widths, room - _MARGIN):
        lines.append("start     " + " ".join(_padded(rows[0][i], widths[i]) for i in block))
        for each in chain.passes:
            cells = [(i, each.cells[i]) for i in block]
            tokens = [
                _padded(text, widths[i], _coloured(text, c) if colour else None)
                for i, c, text in ((i, c, printable(c.token)) for i, c in cells)
            ]
            lines.append(f"pass {each.number:<5}" + " ".join(tokens))
            lines.append(" " * _MARGIN + " ".join(_padded(note(c), widths[i]) for i, c in cells))
        lines.append("output    " + " ".join(_padded(rows[-1][i], widths[i]) for i in block))
        lines.append("")
    return [line.rstrip() for line in lines]


def trace_text(trace: SentenceTrace, room: int = 100, colour: bool = False) -> str:
    """One sentence.

    Args:
        trace: what happened.
        room: columns of the terminal; wider chains go on below.
        colour: add ANSI codes.
    """
    lines = [f"sentence {trace.number}", "source    " + printable(" ".join(trace.source))]
    if trace.reference is not None:
        lines.append("reference " + printable(trace.reference))
    lines.append("lengths   " + "; ".join(
        f"{each.length}{' (chosen)' if each.chosen else ''}: log p {each.log_probability:.2f}, "
        + ("pruned" if each.score is None else f"score {each.score:.3f}")
        for each in trace.lengths
    ))  # fmt: skip
    for chain in trace.chains:
        lines += ["", f"candidate {chain.rank}, score {chain.score:.3f}: {printable(chain.text)}"]
        lines += _chain(chain, room, colour)
    return "\n".join(lines)
