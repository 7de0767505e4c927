"""The terminal's form, character by character."""

import dataclasses
import doctest
import re

from chain_examples import trace

from fairseq_gmlm.analysis import trace_text as module
from fairseq_gmlm.analysis.trace_text import trace_text, width

EXPECTED = """\
sentence 3
source    A dog </s>
reference Ein Hund
lengths   2 (chosen): log p -0.30, score -0.100; 3: log p -1.40, score -0.200

candidate 1, score -0.100: Ein Hund
start     [mask] [mask]
pass 1    Ein    Hund
          *90    *25x_
pass 2    Ein    Hund
           90    =25
output    Ein    Hund
"""


def test_layout() -> None:
    assert trace_text(trace()) == EXPECTED
    assert doctest.testmod(module).failed == 0


def test_wide_chains_go_on_below() -> None:
    words = [f"word{i}" for i in range(12)]
    text = trace_text(trace(words), room=60)
    assert max(map(len, text.split("\ncandidate")[1].split("\n")[1:])) <= 60
    starts = re.findall(r"^pass 1 +(.*)$", text, re.MULTILINE)
    assert len(starts) > 1 and " ".join(starts).split() == words


def test_colours_are_beside_the_marks() -> None:
    coloured = trace_text(trace(), colour=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == EXPECTED
    assert "\x1b[97;48;5;130mHund" in coloured and "\x1b[0m" in coloured
    assert not re.search(r"\x1b\[\S*mEin", coloured)  # sure enough to stay plain


def test_text_cannot_steer_the_terminal() -> None:
    hostile = dataclasses.replace(
        trace(["\x1b[2J", "\u202eabc"]), source=["\x07"], reference="\x1b]0;x"
    )
    text = trace_text(hostile)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_widths() -> None:
    assert (width("abc"), width("日本"), width("e\u0301")) == (3, 4, 1)
    lines = trace_text(trace(["日本", "x"])).split("\n")
    assert "pass 1    日本   x" in lines
