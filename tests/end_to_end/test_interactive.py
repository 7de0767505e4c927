"""fairseq-interactive: as generate, and a line for a line whatever is typed."""

import re
from pathlib import Path
from typing import Dict, List

import pytest
from helpers import fuzz, toy
from helpers.commands import Argument, Hypothesis, call, hypotheses, run, same, tagged

BEAM = ("--iter-decode-max-iter", 3, "--iter-decode-with-beam", 3)


def interactive(
    data: Path, run_folder: Path, lines: bytes, *extra: Argument, encoding: str = "utf-8"
) -> str:
    """What it prints for these lines."""
    return run(
        "interactive", *toy.decoding(data, run_folder / "checkpoint_last.pt"),
        "--user-dir", "fairseq_gmlm", *extra, stdin=lines, env={"PYTHONIOENCODING": encoding},
    ).out  # fmt: skip


@pytest.mark.parametrize("size", [1, 16])
def test_the_same_as_generate(toy_bin: Path, short_run: Path, size: int) -> None:
    """fairseq#2335: stock interactive forgets the leading BOS."""
    printed = call(
        "generate", *toy.decoding(toy_bin, short_run / "checkpoint_last.pt"), "--batch-size", 50,
        *BEAM, "--nbest", 2,
    )  # fmt: skip
    expected, sources = hypotheses(printed), tagged(printed, "S")
    numbers = sorted(expected)[:40]
    lines = "".join(sources[i] + "\n" for i in numbers).encode()
    printed = interactive(
        toy_bin, short_run, lines, *BEAM, "--nbest", 2, "--batch-size", size, "--buffer-size", 17
    )
    found = hypotheses(printed)
    same(found, {i: expected[number] for i, number in enumerate(numbers)})


def fuzz_lines() -> List[bytes]:
    """1,200 lines of all kinds in the toy's words."""
    return fuzz.lines([*toy.WORDS, "copy", "reverse"], 1200, seed=7)


@pytest.fixture(scope="module")
def fuzzed(toy_bin: Path, short_run: Path) -> Dict[int, List[Hypothesis]]:
    """Hypotheses for the fuzz lines, position tables left at what the model brings along.

    Undecodable bytes reach fairseq as surrogates: it reads with Python's standard input, which
    stops on them unless PYTHONIOENCODING says otherwise.
    """
    args = [
        toy_bin, "--path", short_run / "checkpoint_last.pt", "--task", "translation_gmlm", "--cpu",
        "--user-dir", "fairseq_gmlm", "--batch-size", 64, "--buffer-size", 256,
        "--iter-decode-max-iter", 1,
    ]  # fmt: skip
    done = run(
        "interactive", *args, stdin=b"\n".join(fuzz_lines()) + b"\n",
        env={"PYTHONIOENCODING": "utf-8:surrogateescape"},
    )  # fmt: skip
    assert "longer than" in done.err + done.out
    return hypotheses(done.out)


def test_one_line_for_each_line_in_order(fuzzed: Dict[int, List[Hypothesis]]) -> None:
    assert list(fuzzed) == list(range(len(fuzz_lines())))
    assert all(len(found) == 1 for found in fuzzed.values())


def test_no_special_symbol_in_any_output(fuzzed: Dict[int, List[Hypothesis]]) -> None:
    allowed = {*toy.WORDS, "copy", "reverse"}
    for number, found in fuzzed.items():
        assert set(found[0].text.split()) <= allowed, number
        assert re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", str(found[0].score)), number


def test_nothing_to_translate_gives_an_empty_line(fuzzed: Dict[int, List[Hypothesis]]) -> None:
    blank = [
        i for i, line in enumerate(fuzz_lines()) if not line.decode("utf-8", "replace").split()
    ]
    assert len(blank) > 100
    assert {fuzzed[i][0].text for i in blank} == {""}
    assert all(fuzzed[i][0].score == 0 for i in blank)
    spoken = set(fuzzed) - set(blank)
    assert sum(bool(fuzzed[i][0].text) for i in spoken) == len(spoken)


def test_equal_lines_have_equal_answers(fuzzed: Dict[int, List[Hypothesis]]) -> None:
    first: Dict[str, int] = {}
    pairs = 0
    for number, line in enumerate(fuzz_lines()):
        key = " ".join(line.decode("utf-8", "replace").split())
        if key in first:
            pairs += 1
            assert fuzzed[number][0].text == fuzzed[first[key]][0].text
            assert abs(fuzzed[number][0].score - fuzzed[first[key]][0].score) < 1e-4
        first.setdefault(key, number)
    assert pairs > 100


def test_every_documented_decoding_flag_is_known(toy_bin: Path, short_run: Path) -> None:
    """fairseq#1715."""
    printed = interactive(
        toy_bin, short_run, b"copy aa bb\n", *BEAM, "--iter-decode-force-max-iter",
        "--retain-iter-history", "--print-step", "--nbest", 2, "--lenpen", 0.8,
        "--decode-strategy", "mask-predict", "--mask-schedule", "cosine",
        "--length-offset-beam", 3, "--decode-seed", 3, "--allow-unk",
    )  # fmt: skip
    assert len(hypotheses(printed)[0]) == 2
