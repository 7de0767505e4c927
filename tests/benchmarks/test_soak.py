"""The soak: each line has its answer, and the curve is read right."""

import argparse
import io
import sys
from itertools import islice

import pytest
from soak import answers, batches, parse, slope, soak

# Answers as fairseq-interactive prints them, and keeps a thousandth of a MiB for each line.
ECHO = """
import sys
kept = []
for number, line in enumerate(sys.stdin.buffer):
    kept.append(bytes(1000))
    sys.stdout.buffer.write(b"S-%d\\t" % number + line)
    sys.stdout.buffer.write(b"H-%d\\t-0.5\\t" % number + line.replace(b"mask", b"") + b"P-0\\t-1\\n")
    sys.stdout.buffer.flush()
"""


def settings(**given):
    values = {"minutes": 0.02, "every": 0.2, "buffer": 10, "pause": 0.0, "seed": 3}
    return argparse.Namespace(**{**values, **given})


def test_every_line_is_answered() -> None:
    curve = soak([sys.executable, "-c", ECHO], ["a", "b"], settings())
    assert len(curve) >= 3 and curve[-1]["lines"] > curve[0]["lines"] >= 10
    assert curve[-1]["lines"] % 10 == 0 and all(point["mib"] > 1 for point in curve)


def test_a_process_that_ends_is_told() -> None:
    with pytest.raises(RuntimeError, match="fairseq-interactive ended before line"):
        soak([sys.executable, "-c", "input()"], ["a"], settings())


@pytest.mark.parametrize(
    "printed, message",
    [
        (b"H-0\t-1\ta\nH-2\t-1\tb\n", "the answer to line 2 came for 1"),
        (b"H-0\t-1\ta\nH-1\t-1\tb <mask>\n", "a mask in the answer to line 1"),
        (b"H-0\t-1\ta\nS-1\tb\n", "ended before line 1's answer"),
    ],
)
def test_what_is_wrong_is_named(printed: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        answers(io.BytesIO(printed), 0, 2)


def test_lines_are_of_every_kind() -> None:
    thousand = [line for batch in islice(batches(["a", "b"], 50, 1), 20) for line in batch]
    assert len(thousand) == 1000
    assert sum(len(line) >= 19999 for line in thousand) == 2 and b"" in thousand
    assert any(b"\x00" in line for line in thousand)


def test_the_slope_is_that_of_the_second_half() -> None:
    rising = [{"seconds": 900 * t, "mib": 900 if t < 4 else 100 + 3 * t} for t in range(8)]
    assert slope(rising) == pytest.approx(12)
    assert slope(rising[:1]) == 0


def test_options(tmp_path) -> None:
    args = parse(["--path", "c.pt", "--data", "bin", "--text", "t", "--json", "x.json"])
    assert (args.minutes, args.buffer, args.pause) == (60, 50, 0)
