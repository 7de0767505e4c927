"""fairseq-generate: the same hypotheses however it is called."""

from pathlib import Path
from typing import List

import pytest
from helpers import toy
from helpers.commands import Argument, call, hypotheses, run, same, tagged


def generate(data: Path, run_folder: Path, *extra: Argument, size: int = 50) -> str:
    """Decode the test set with a model that is still wrong about much."""
    checkpoint = run_folder / "checkpoint_last.pt"
    return call("generate", *toy.decoding(data, checkpoint), "--batch-size", size, *extra)


BEAM = ("--iter-decode-max-iter", 3, "--iter-decode-with-beam", 3)
WAYS = {
    "mask-predict": BEAM,
    "n-best": (*BEAM, "--nbest", 3),
    "lenpen": (*BEAM, "--lenpen", 0.5),
    "refine": ("--decode-strategy", "refine", "--decode-start", "random", *BEAM),
    "sampling": ("--sampling", "--beam", 1, "--sampling-topk", 5, "--iter-decode-max-iter", 2),
}


@pytest.mark.parametrize("way", WAYS)
def test_batch_size_and_padding_change_nothing(toy_bin: Path, short_run: Path, way: str) -> None:
    expected = hypotheses(generate(toy_bin, short_run, *WAYS[way]))
    assert sorted(expected) == list(range(toy.SIZES["test"]))
    alone = generate(toy_bin, short_run, *WAYS[way], size=1)
    right = generate(toy_bin, short_run, *WAYS[way], "--left-pad-source")
    tokens = ("--max-tokens", 100, "--required-batch-size-multiple", 8)
    odd = generate(toy_bin, short_run, *WAYS[way], *tokens, size=64)
    for printed in (alone, right, odd):
        same(hypotheses(printed), expected)


@pytest.mark.parametrize("size", [7, 8, 64, 199, 300])
def test_no_sentence_is_left_out(toy_bin: Path, short_run: Path, size: int) -> None:
    """Recent fairseq drops a last batch that is no multiple of eight."""
    printed = generate(toy_bin, short_run, "--iter-decode-max-iter", 0, size=size)
    assert sorted(hypotheses(printed)) == list(range(toy.SIZES["test"]))


def test_steps_history_and_n_best_are_printed(toy_bin: Path, short_run: Path) -> None:
    printed = generate(
        toy_bin, short_run, *BEAM, "--nbest", 2, "--print-step", "--retain-iter-history"
    )
    steps = tagged(printed, "I")
    assert sorted(steps) == list(range(toy.SIZES["test"]))
    assert set(steps.values()) <= {"1", "2", "3"}
    assert all(len(found) == 2 for found in hypotheses(printed).values())
    last = {}
    for line in printed.split("\n"):
        if line.startswith("E-"):
            number, text = line[2:].split("\t")
            last.setdefault(int(number.split("_")[0]), []).append(text)
    for number, found in hypotheses(printed).items():
        assert found[0].text in last[number] and found[1].text in last[number]


def test_results_can_be_written_to_a_folder(toy_bin: Path, short_run: Path, tmp_path: Path) -> None:
    """fairseq#2003."""
    generate(toy_bin, short_run, *BEAM, "--results-path", tmp_path)
    written = (tmp_path / "generate-test.txt").read_text("utf-8")
    same(hypotheses(written), hypotheses(generate(toy_bin, short_run, *BEAM)))


@pytest.mark.parametrize("scoring", [("--scoring", "sacrebleu"), ("--scoring", "bleu")])
def test_scorers(toy_bin: Path, toy_run: Path, scoring: tuple) -> None:
    printed = generate(toy_bin, toy_run, "--iter-decode-max-iter", 4, *scoring)
    last = [line for line in printed.split("\n") if line.startswith("Generate test")]
    assert len(last) == 1 and "100.0" in last[0]


def test_the_whole_command_line(toy_bin: Path, short_run: Path) -> None:
    """In a process of its own, with --user-dir, nothing imported beforehand."""
    done = run(
        "generate", *toy.decoding(toy_bin, short_run / "checkpoint_last.pt"), "--user-dir",
        "fairseq_gmlm", "--batch-size", 50, *BEAM,
    )  # fmt: skip
    same(hypotheses(done.out), hypotheses(generate(toy_bin, short_run, *BEAM)))


def test_an_ensemble_of_checkpoints(toy_bin: Path, short_run: Path) -> None:
    twice = f"{short_run / 'checkpoint_last.pt'}:{short_run / 'checkpoint_last.pt'}"
    printed = call("generate", *toy.decoding(toy_bin, Path(twice)), "--batch-size", 50, *BEAM)
    same(hypotheses(printed), hypotheses(generate(toy_bin, short_run, *BEAM)))


@pytest.mark.parametrize("task", ["translation", "translation_lev"])
def test_a_forgotten_task_is_named(toy_bin: Path, short_run: Path, task: str) -> None:
    """fairseq#3469: translation is the default, and stock models die without a word about it."""
    args: List[Argument] = [*toy.decoding(toy_bin, short_run / "checkpoint_last.pt")]
    args[args.index("--task") + 1] = task
    with pytest.raises(ValueError, match="add: --task translation_gmlm"):
        call("generate", *args)


def test_other_dictionaries_are_named(short_run: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in toy.SIZES:
        for side in "ab":
            (raw / f"{split}.{side}").write_text("copy aa xx\nreverse bb yy\n", "utf-8")
    data = toy.binarize(raw, tmp_path / "bin")
    with pytest.raises(ValueError, match=r"checkpoint's source dictionary.*--srcdict/--tgtdict"):
        generate(data, short_run)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--prefix-size", 2), "--prefix-size is not supported"),
        (("--nbest", 4, "--beam", 4), "--nbest 4 is more than the 1 candidates"),
        (("--iter-decode-with-beam", 99), "--iter-decode-with-beam 99 asks for more lengths"),
        (("--mask-range", 4), "and the same --mask-range"),
        (("--decode-strategy", "refine", "--decode-start", "mask-range"), "--mask-range N"),
    ],
)
def test_options_that_do_not_fit_are_named(
    toy_bin: Path, short_run: Path, extra: tuple, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        generate(toy_bin, short_run, *extra)
