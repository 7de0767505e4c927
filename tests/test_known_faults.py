"""Faults that users of fairseq's parallel models have reported in public, tried on this plugin.

Those that belong to one module are tested beside it; ``docs/known_faults.md`` says where.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from helpers import toy
from helpers.commands import PACKAGE, Argument, call, hypotheses

from fairseq_gmlm.compat import load_plain

REPORTS = 62  # in the list that the document answers
DOCUMENT = PACKAGE.parent / "docs" / "known_faults.md"


def rows() -> List[List[str]]:
    """Cells of the document's tables, without their heads."""
    lines = DOCUMENT.read_text("utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return [row for row in cells if row[1] != "here" and row[0] != "---"]


def test_every_report_has_an_answer_and_every_test_named_exists() -> None:
    reports = [row[0] for row in rows() if re.fullmatch(r"[\w./-]+#\d+", row[0])]
    assert len(reports) == len(set(reports)) == REPORTS
    for report, behaviour, where in rows():
        assert behaviour and where, report
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", where)
        assert named or where.startswith("not applicable"), report
        for path, name in named:
            code = (PACKAGE.parent / path).read_text("utf-8")
            assert f"def {name}(" in code, f"{path}::{name}"


def teacher(data: Path, save: Path) -> Path:
    """An autoregressive model, hardly trained."""
    call(
        "train", data, "--save-dir", save, "--task", "translation", "--arch", "transformer",
        *toy.POSITIONS, "--criterion", "cross_entropy", "--optimizer", "adam", "--lr", 0.001,
        "--encoder-embed-dim", 16, "--decoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16,
        "--decoder-ffn-embed-dim", 16, "--encoder-layers", 1, "--decoder-layers", 1,
        "--encoder-attention-heads", 2, "--decoder-attention-heads", 2, "--cpu",
        "--batch-size", 128, "--max-update", 2, "--num-workers", 0, "--data-buffer-size", 0,
        "--no-epoch-checkpoints", "--disable-validation", "--log-format", "none",
    )  # fmt: skip
    return save / "checkpoint_last.pt"


def reranked(data: Path, student: Path, reranker: Path) -> str:
    """Three length candidates ranked by another model."""
    paths = Path(f"{student}:{reranker}")
    return call(
        "generate", *toy.decoding(data, paths), "--batch-size", 50,
        "--iter-decode-with-external-reranker", "--iter-decode-with-beam", 3,
    )  # fmt: skip


def test_an_external_reranker(toy_bin: Path, short_run: Path, tmp_path: Path) -> None:
    """FLC777/GLAT#13, fairseq#1522: stock stops with an AttributeError."""
    student = short_run / "checkpoint_last.pt"
    found = hypotheses(reranked(toy_bin, student, teacher(toy_bin, tmp_path)))
    assert len(found) == toy.SIZES["test"]
    assert all(h[0].score < 0 for h in found.values())


def test_a_reranker_of_other_dictionaries_is_refused(
    toy_bin: Path, short_run: Path, tmp_path: Path
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for split in toy.SIZES:
        for side in "ab":
            lines = "copy aa bb\nreverse xx yy zz vv ww uu tt ss\n" * 20
            (raw / f"{split}.{side}").write_text(lines, "utf-8")
    other = toy.binarize(raw, tmp_path / "bin", "--padding-factor", 1)
    with pytest.raises(ValueError, match="dictionar"):
        reranked(toy_bin, short_run / "checkpoint_last.pt", teacher(other, tmp_path / "t"))


def test_every_strategy_is_a_value_of_one_documented_flag(
    toy_bin: Path, capsys: pytest.CaptureFixture
) -> None:
    """fairseq#2653. fairseq's own --help leaves out what tasks add, so the parser is asked."""
    with pytest.raises(SystemExit):
        call("generate", toy_bin, "--task", "translation_gmlm", "--decode-strategy", "magic")
    message = capsys.readouterr().err
    documented = (PACKAGE.parent / "docs" / "options.md").read_text("utf-8")
    for name in ("mask-predict", "refine", "easy-first", "any-order", "threshold", "gibbs"):
        assert name in message and name in documented, name


def test_another_folder_of_the_same_name_is_refused_by_fairseq(tmp_path: Path) -> None:
    """fairseq#2815: two plugins of one name cannot be told apart; the message names the path."""
    other = tmp_path / "fairseq_gmlm"
    other.mkdir()
    shutil.copy(PACKAGE / "version.py", other / "__init__.py")
    code = (
        "import argparse, fairseq_gmlm\nfrom fairseq import utils\n"
        f"utils.import_user_module(argparse.Namespace(user_dir={str(other)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode != 0
    assert str(other) in done.stderr and "not globally unique" in done.stderr


def final_loss(folder: Path) -> float:
    """Word loss of the last validation, in bits."""
    state = load_plain(folder / "checkpoint_last.pt")
    meters = {name: meter for _, name, _, meter in state["extra_state"]["metrics"]["valid"]}
    return float(meters["nll_loss"]["sum"]) / float(meters["nll_loss"]["count"])


CLIPPED: Dict[str, List[Argument]] = {"off": ["--clip-norm", 0.0], "on": ["--clip-norm", 1.0]}


@pytest.mark.parametrize("clipping", CLIPPED)
def test_the_loss_falls_with_and_without_clipping(
    toy_bin: Path, tmp_path: Path, clipping: str
) -> None:
    """facebookresearch/Mask-Predict#6: the loss stays near 12."""
    args = [*toy.training(toy_bin, tmp_path), *CLIPPED[clipping], "--lr", 0.003]
    call("train", *args, "--max-update", 40)
    assert final_loss(tmp_path) < 4.0  # 12 words alike are 3.6 bits; it begins above 6


def test_a_wide_model_does_not_diverge(toy_bin: Path, tmp_path: Path) -> None:
    """facebookresearch/Mask-Predict#7."""
    call(
        "train", *toy.training(toy_bin, tmp_path), "--encoder-embed-dim", 256,
        "--decoder-embed-dim", 256, "--encoder-ffn-embed-dim", 512, "--lr", 0.02,
        "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 1000, "--clip-norm", 1.0,
        "--max-update", 40,
    )  # fmt: skip
    assert final_loss(tmp_path) < 5  # it begins above 15
    state = load_plain(tmp_path / "checkpoint_last.pt")["model"]
    assert all(w.isfinite().all() for w in state.values() if w.is_floating_point())


def test_training_prints_all_effective_options(short_run: Path) -> None:
    """thu-coai/DA-Transformer#13: a result that nobody can repeat."""
    log = (short_run / "log").read_text("utf-8")
    for name, value in {"mask_prior": "uniform", "seed": "1", "lr": "[0.003]"}.items():
        assert re.search(rf"'{name}': '?{re.escape(value)}", log), name


def test_lengths_are_learnt_with_the_words(toy_bin: Path, toy_run: Path) -> None:
    """yegcjs/DINOISER#1, zhjgao/difformer#8: length ratio 7.6, as the head was never trained."""
    printed = {
        name: call(
            "generate", *toy.decoding(toy_bin, toy_run / "checkpoint_last.pt"),
            "--batch-size", 100, *extra,
        )
        for name, extra in {"own": (), "oracle": ("--oracle-length",)}.items()
    }  # fmt: skip
    for text in printed.values():
        assert "ratio=1.000" in text
