"""The copy-and-reverse task is solved exactly after about a minute on one thread."""

from pathlib import Path
from typing import Dict

import pytest
from helpers import toy
from helpers.commands import call, hypotheses, tagged


def texts(printed: str) -> Dict[int, str]:
    """Best hypotheses by sentence number."""
    return {number: found[0].text for number, found in hypotheses(printed).items()}


@pytest.mark.parametrize("max_iter", [1, 4, 9])
def test_every_held_out_sentence_is_right(toy_bin: Path, toy_run: Path, max_iter: int) -> None:
    printed = call(
        "generate", *toy.decoding(toy_bin, toy_run / "checkpoint_last.pt"), "--batch-size", 64,
        "--iter-decode-max-iter", max_iter,
    )  # fmt: skip
    found, sources, wanted = texts(printed), tagged(printed, "S"), tagged(printed, "T")
    assert len(found) == toy.SIZES["test"]
    assert all(toy.answer(sources[number]) == wanted[number] for number in wanted)
    assert found == wanted


def test_held_out_sentences_were_not_trained_on(toy_raw: Path) -> None:
    held_out, train = (
        set((toy_raw / f"{split}.a").read_text("utf-8").splitlines()) for split in ("test", "train")
    )
    assert len(held_out) == toy.SIZES["test"] and len(train) == toy.SIZES["train"]
    assert not held_out & train
