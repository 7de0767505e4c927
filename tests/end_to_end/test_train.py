"""fairseq-train and fairseq-validate, every way the plugin can be found, and its refusals."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
import sacrebleu
import torch
from helpers import toy
from helpers.commands import PACKAGE, Argument, call, hypotheses, run, tagged

from fairseq_gmlm.compat import load_plain


def logged(log: str, kind: str) -> List[Dict[str, str]]:
    """Lines ``| train_inner |`` or ``| valid |`` as dictionaries."""
    lines = re.findall(rf"\| {kind} \|(.*)", log)
    return [dict(re.findall(r"(\w+)[ =]([-\d.]+)", line)) for line in lines if "loss" in line]


def test_bleu_of_validation_is_that_of_generate(toy_bin: Path, short_run: Path) -> None:
    """fairseq#1964 and #2114: silent or crashing for stock NAT models."""
    values = [line["bleu"] for line in logged((short_run / "log").read_text("utf-8"), "valid")]
    assert len(values) == 3  # at 30 updates, at the end of the epoch, and at 60
    printed = call(
        "generate", *toy.decoding(toy_bin, short_run / "checkpoint_last.pt"), "--batch-size", 32,
        "--gen-subset", "valid", "--iter-decode-max-iter", 3, "--iter-decode-with-beam", 2,
    )  # fmt: skip
    found, wanted = hypotheses(printed), tagged(printed, "T")
    assert len(found) == toy.SIZES["valid"]
    bleu = sacrebleu.corpus_bleu(
        [found[i][0].text for i in wanted], [list(wanted.values())], tokenize="none", force=True
    )
    assert float(values[-1]) == pytest.approx(bleu.score, abs=0.01)


def test_bleu_decides_which_checkpoint_is_best(short_run: Path) -> None:
    """fairseq#3881: KeyError for stock NAT models."""
    values = [float(v["bleu"]) for v in logged((short_run / "log").read_text("utf-8"), "valid")]
    state = load_plain(short_run / "checkpoint_best.pt")
    assert float(state["extra_state"]["best"]) == pytest.approx(max(values), abs=0.01)


def test_what_is_logged(short_run: Path) -> None:
    log = (short_run / "log").read_text("utf-8")
    line = logged(log, "valid")[-1]
    for name in (
        "loss", "nll_loss", "ppl", "length_loss", "length_accuracy", "masked_share", "accuracy",
        "word_nll", "bleu",
    ):  # fmt: skip
        assert name in line, name
    assert 0 <= float(line["accuracy"]) <= 1
    # Uniform counts over 1..n mask (n + 1) / 2 of n words on average: 3/4 down to 7/12.
    assert 0.5 < float(line["masked_share"]) < 0.75
    assert "libnat" not in log


def test_validate_repeats_the_validation_of_training(toy_bin: Path, short_run: Path) -> None:
    """Noise at validation is fixed, so the loss of a checkpoint is one number."""
    expected = logged((short_run / "log").read_text("utf-8"), "valid")[-1]
    done = run(
        "validate", toy_bin, "--user-dir", "fairseq_gmlm", "--task", "translation_gmlm",
        *toy.POSITIONS, "--path", short_run / "checkpoint_last.pt", "--batch-size", 16, "--cpu",
        "--valid-subset", "valid", "--num-workers", 0, "--log-format", "simple",
    )  # fmt: skip
    line = logged(done.out + done.err, "INFO")[-1]
    for name in ("loss", "nll_loss", "length_loss", "accuracy", "masked_share"):
        assert float(line[name]) == pytest.approx(float(expected[name]), abs=2e-3), name


def user_dirs() -> Dict[str, str]:
    """Ways to write --user-dir, from the folder above the checkout's package."""
    printed = subprocess.run(
        [sys.executable, "-m", "fairseq_gmlm.cli.main", "user-dir"],
        capture_output=True, text=True, check=True, cwd=PACKAGE.parent,
    ).stdout.strip()  # fmt: skip
    return {
        "absolute": str(PACKAGE),
        "absolute, trailing slash": f"{PACKAGE}/",
        "relative, trailing slash": "fairseq_gmlm/",
        "relative, dot": "./fairseq_gmlm",
        "printed by fairseq-gmlm user-dir": printed,
    }


@pytest.mark.parametrize("way", ["absolute, trailing slash", "relative, dot", "printed"])
def test_ways_to_write_user_dir(toy_bin: Path, tmp_path: Path, way: str) -> None:
    """fairseq#2815, #2802 and jind11/TitleStylist#4 (PYTHONPATH holds the parent folder)."""
    ways = user_dirs()
    name = next(key for key in ways if key.startswith(way))
    inside = ways[name].startswith((".", "fairseq"))
    done = run(
        "train", *toy.training(toy_bin, tmp_path), "--user-dir", ways[name], "--max-update", 1,
        "--disable-validation", "--no-save",
        cwd=PACKAGE.parent if inside else tmp_path,
        env={"PYTHONPATH": str(PACKAGE.parent)} if way == "printed" else {},
    )  # fmt: skip
    assert "done training" in done.err + done.out


REFUSED = {
    "no task": (("--task", "translation"), "add: --task translation_gmlm"),
    "foreign task": (("--task", "translation_lev"), "add: --task translation_gmlm"),
    "foreign criterion": (
        ("--criterion", "label_smoothed_cross_entropy"),
        "add: --criterion gmlm_loss",
    ),
    "foreign model": (("--arch", "transformer"), "use --task translation_lev"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_mixtures_say_what_to_type(toy_bin: Path, tmp_path: Path, kind: str) -> None:
    """fairseq#1930 and #3469."""
    extra, message = REFUSED[kind]
    args: List[Argument] = [*toy.training(toy_bin, tmp_path), "--max-update", 1]
    args[args.index(extra[0]) + 1] = extra[1]
    if kind == "foreign model":
        for option in ("--encoder-learned-pos", "--decoder-learned-pos"):
            args.remove(option)
    with pytest.raises(ValueError, match=message):
        call("train", *args)


def test_a_foreign_model_with_our_criterion(toy_bin: Path, tmp_path: Path) -> None:
    args: List[Argument] = [*toy.training(toy_bin, tmp_path), "--max-update", 1]
    args[args.index("--arch") + 1] = "transformer"
    args[args.index("--task") + 1] = "translation"
    with pytest.raises(ValueError, match="gmlm_loss cannot be used with task TranslationTask"):
        call("train", *args)


def test_options_out_of_range_are_named(toy_bin: Path, tmp_path: Path) -> None:
    for extra, message in (
        (("--mask-ratio", 2), "mask ratio must be in"),
        (("--num-train-stages", 0), "--num-train-stages must be at least 1"),
        (("--mask-range", 2, "--mask-prior", "fixed"), "--mask-range 2 has no mask for position"),
    ):
        with pytest.raises(ValueError, match=message):
            call("train", *toy.training(toy_bin, tmp_path), "--max-update", 1, *extra)


def test_a_start_from_an_autoregressive_teacher(toy_bin: Path, tmp_path: Path) -> None:
    shape = (
        "--share-all-embeddings", "--encoder-embed-dim", 64, "--decoder-embed-dim", 64,
        "--encoder-ffn-embed-dim", 128, "--decoder-ffn-embed-dim", 128, "--encoder-layers", 2,
        "--decoder-layers", 1, "--encoder-attention-heads", 2, "--decoder-attention-heads", 2,
    )  # fmt: skip
    call(
        "train", toy_bin, "--save-dir", tmp_path / "teacher", "--task", "translation",
        "--arch", "transformer", "--encoder-learned-pos", "--decoder-learned-pos",
        "--encoder-normalize-before", "--decoder-normalize-before", *toy.POSITIONS, *shape,
        "--criterion", "cross_entropy", "--optimizer", "adam", "--lr", 0.001, "--cpu",
        "--batch-size", 128, "--max-update", 2, "--num-workers", 0, "--data-buffer-size", 0,
        "--no-epoch-checkpoints", "--disable-validation", "--log-format", "none",
    )  # fmt: skip
    teacher = tmp_path / "teacher" / "checkpoint_last.pt"
    call(
        "train", *toy.training(toy_bin, tmp_path / "student"), "--init-from", teacher,
        "--max-update", 1, "--lr", 1e-9, "--disable-validation",
    )  # fmt: skip
    given = load_plain(teacher)["model"]
    own = load_plain(tmp_path / "student" / "checkpoint_last.pt")["model"]
    shared = [n for n in given if n in own and given[n].shape == own[n].shape]
    assert len(shared) > 50
    for name in shared:
        if given[name].is_floating_point():
            torch.testing.assert_close(own[name], given[name], atol=1e-6, rtol=0)
    words = given["encoder.embed_tokens.weight"]
    table = own["encoder.embed_tokens.weight"]
    torch.testing.assert_close(table[: len(words)], words, atol=1e-6, rtol=0)
    # The mask, which the teacher does not know, begins at the mean of the words.
    torch.testing.assert_close(table[-1], words[4:].mean(0), atol=1e-6, rtol=0)


@pytest.mark.parametrize("extra", [("--store-ema",), ("--store-ema", "--ema-fp32")])
def test_an_average_over_training_can_be_stored_and_resumed(
    toy_bin: Path, tmp_path: Path, extra: tuple
) -> None:
    for updates in (2, 3):
        call(
            "train", *toy.training(toy_bin, tmp_path), *extra, "--ema-decay", 0.5,
            "--max-update", updates, "--disable-validation",
        )  # fmt: skip
    state = load_plain(tmp_path / "checkpoint_last.pt")
    averaged = state["extra_state"]["ema"]
    assert state["optimizer_history"][-1]["num_updates"] == 3
    assert not torch.equal(
        averaged["decoder.layers.0.fc1.weight"], state["model"]["decoder.layers.0.fc1.weight"]
    )


@pytest.mark.parametrize(
    "extra",
    [
        ("--train-dtype", "bfloat16"),
        ("--num-train-stages", 2, "--label-smoothing", 0.1, "--z-loss", 1e-4),
        ("--random-prob", 1.0, "--loss-weights", "all"),
        ("--mask-range", 14, "--keep-prob", 0.1, "--loss-weights", "noised"),
        ("--mask-count", "iid", "--mask-prior", "fixed", "--mask-ratio", 0.05, "--batch-size", 1),
        ("--source-bos", "--length-predictor", "token", "--update-freq", 3),
        ("--loss-normalization", "per-sentence", "--num-workers", 2),
    ],
    ids=lambda extra: str(extra[0]),
)
def test_kinds_of_training(toy_bin: Path, tmp_path: Path, extra: tuple) -> None:
    args: List[Argument] = [*toy.training(toy_bin, tmp_path), *extra, "--max-update", 4]
    call("train", *args, "--max-valid-steps", 1)
    state = load_plain(tmp_path / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 4
    weights = [w for w in state["model"].values() if w.is_floating_point()]
    assert all(w.isfinite().all() for w in weights)
