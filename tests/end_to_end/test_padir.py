"""PaDIR's options through fairseq's own commands."""

import itertools
from pathlib import Path
from typing import Any, List

import pytest
import torch
from helpers.commands import call, hypotheses, tagged
from helpers.toy import answer, binarize, decoding, training

from fairseq_gmlm.compat import load_plain

REFINE = (
    "--decode-strategy",
    "refine",
    "--decode-start",
    "random",
    "--gen-subset",
    "valid",
    "--iter-decode-max-iter",
    2,
)
BEAM = ("--iter-decode-with-beam", 3)


@pytest.fixture(scope="module")
def padir(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything at once: T5 style, positional attention, two stages, random starts, a head."""
    save = tmp_path_factory.mktemp("padir")
    call(
        "train",
        *training(toy_bin, save),
        "--lr",
        0.003,
        "--max-update",
        40,
        "--norm-type",
        "rms",
        "--no-bias",
        "--relative-positions",
        "--no-scale-attention",
        "--no-scale-embedding",
        "--scale-tied-logits",
        "--gated-ffn",
        "--activation-fn",
        "gelu",
        "--positional-attention",
        "--length-predictor",
        "token",
        "--learned-rejecter",
        "--num-train-stages",
        2,
        "--stage-remasking",
        "logits-sum",
        "--rejecter",
        "learned",
        "--mask-count",
        "iid",
        "--random-prob",
        1,
        "--loss-weights",
        "all",
        "--z-loss",
        1e-4,
        "--label-smoothing",
        0.1,
        "--loss-normalization",
        "sentences",
    )
    return save / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def teacher(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(toy_bin, tmp_path_factory.mktemp("teacher"))


def train_teacher(data: Path, save: Path) -> Path:
    """A few updates of an autoregressive model."""
    sizes: List[Any] = []
    for side in ("encoder", "decoder"):
        sizes += [f"--{side}-embed-dim", 32, f"--{side}-ffn-embed-dim", 32]
        sizes += [f"--{side}-layers", 1, f"--{side}-attention-heads", 2]
    call(
        "train",
        data,
        "--save-dir",
        save,
        "--task",
        "translation",
        "--arch",
        "transformer",
        *sizes,
        "--share-all-embeddings",
        "--criterion",
        "label_smoothed_cross_entropy",
        "--optimizer",
        "adam",
        "--lr",
        0.003,
        "--batch-size",
        64,
        "--max-update",
        20,
        "--cpu",
        "--num-workers",
        0,
        "--data-buffer-size",
        0,
        "--no-epoch-checkpoints",
    )
    return save / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def plain(padir: Path, toy_bin: Path) -> str:
    """What is printed without further options."""
    return generate(toy_bin, padir)


def generate(data: Path, path: Any, *more: Any) -> str:
    return call("generate", *decoding(data, path), *REFINE, *more)


@pytest.mark.parametrize(
    "options",
    [
        ("--rejecter", "linear-schedule", "--remasking", "initial"),
        ("--rejecter", "constant", "--bottom-percent", 25, "--remasking", "initial"),
        ("--rejecter", "stutter", "--remask-stutter", "--length-offset-beam", 3),
        (
            "--beam",
            1,
            "--sampling",
            "--temperature",
            0.7,
            "--sampling-topk",
            5,
            "--rescale-log-probs",
        ),
        ("--parallel-decodes", 3, "--nbest", 3, "--brevity-alpha", 0.6),
        ("--oracle-length",),
    ],
    ids=lambda options: options[0][2:],
)
def test_options_reach_the_decoder(padir: Path, toy_bin: Path, plain: str, options: Any) -> None:
    changed = generate(toy_bin, padir, *options)
    assert hypotheses(plain).keys() == hypotheses(changed).keys() == set(range(100))
    assert hypotheses(plain) != hypotheses(changed)
    assert "gmlm mask" not in changed
    if "--remask-stutter" not in options:
        return
    # what is printed may still repeat a word only if remasking put it there
    texts = [found[0].text.split() for found in hypotheses(changed).values()]
    before = [found[0].text.split() for found in hypotheses(plain).values()]
    assert count_stutters(texts) < count_stutters(before)


def count_stutters(texts: List[List[str]]) -> int:
    return sum(a == b for words in texts for a, b in itertools.pairwise(words))


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_print_alignment(padir: Path, toy_bin: Path, kind: str) -> None:
    printed = generate(toy_bin, padir, "--print-alignment", kind)
    lines, texts, sources = tagged(printed, "A"), hypotheses(printed), tagged(printed, "S")
    assert lines.keys() == texts.keys() == sources.keys()
    for number, line in lines.items():
        words, source = texts[number][0].text.split(), sources[number].split()
        parts = line.split()
        if kind == "hard":
            pairs = [tuple(map(int, pair.split("-"))) for pair in parts]
            assert [t for _, t in pairs] == list(range(len(words)))
            assert all(0 <= s < len(source) for s, _ in pairs)
        else:
            assert len(parts) == len(words) + 1
            assert all(len(row.split(",")) == len(source) + 1 for row in parts)
    if kind == "soft":
        first = generate(toy_bin, padir, "--print-alignment", kind, "--attention-pass", 1)
        assert tagged(first, "A") != lines


def test_an_autoregressive_model_reranks(padir: Path, toy_bin: Path, teacher: Path) -> None:
    more = (*BEAM, "--parallel-decodes", 2)
    plain = generate(toy_bin, padir, *more)
    ranked = generate(toy_bin, f"{padir}:{teacher}", *more, "--iter-decode-with-external-reranker")
    assert hypotheses(ranked).keys() == hypotheses(plain).keys()
    assert hypotheses(ranked) != hypotheses(plain)


def test_a_reranker_of_another_data_bin_is_refused(
    padir: Path, toy_bin: Path, tmp_path: Path
) -> None:
    lines = ["copy xx yy zz", "reverse yy zz"] * 20
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.a").write_text("".join(f"{s}\n" for s in lines), "utf-8")
        (tmp_path / f"{split}.b").write_text("".join(f"{answer(s)}\n" for s in lines), "utf-8")
    other = train_teacher(binarize(tmp_path, tmp_path / "bin"), tmp_path / "run")
    with pytest.raises(ValueError, match="the reranker's source dictionary has"):
        generate(toy_bin, f"{padir}:{other}", *BEAM, "--iter-decode-with-external-reranker")


def test_two_checkpoints_are_averaged(padir: Path, toy_bin: Path) -> None:
    twice = generate(toy_bin, f"{padir}:{padir}", *BEAM)
    once = generate(toy_bin, padir, *BEAM)
    assert {k: v[0].text for k, v in hypotheses(twice).items()} == {
        k: v[0].text for k, v in hypotheses(once).items()
    }


def test_a_contradiction_ends_with_a_message(padir: Path, toy_bin: Path) -> None:
    with pytest.raises(ValueError, match="--decode-start random"):
        call(
            "generate",
            *decoding(toy_bin, padir),
            "--decode-strategy",
            "refine",
            "--parallel-decodes",
            3,
        )


def test_frozen_training_moves_only_the_head(padir: Path, toy_bin: Path, tmp_path: Path) -> None:
    call(
        "train",
        *training(toy_bin, tmp_path),
        "--lr",
        0.01,
        "--max-update",
        3,
        "--length-predictor",
        "token",
        "--learned-rejecter",
        "--freeze-encoder",
        "--freeze-decoder",
        "--freeze-length",
        "--relative-positions",
        "--no-bias",
        "--norm-type",
        "rms",
        "--gated-ffn",
        "--positional-attention",
        "--init-from",
        padir,
        "--init-parts",
        "encoder,decoder,embeddings,length,rejecter",
    )
    before = load_plain(padir)["model"]
    after = load_plain(tmp_path / "checkpoint_last.pt")["model"]
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved == {"rejecter.weight", "rejecter.bias"}


@pytest.mark.parametrize(
    "options",
    [
        ("--mask-rule", "spans", "--mask-span-mean", 2),
        ("--mask-range", 14, "--keep-prob", -1, "--random-prob", -1),
        ("--length-predictor", "affine", "--length-loss-weight", 0.1),
        ("--length-predictor", "fertility", "--length-detach"),
    ],
    ids=lambda options: "".join(options[:2] if len(str(options[1])) > 2 else options[:1]),
)
def test_trainings_run_and_decode(toy_bin: Path, tmp_path: Path, options: Any) -> None:
    call("train", *training(toy_bin, tmp_path), "--lr", 0.002, "--max-update", 3, *options)
    start = "mask"
    more: Any = ()
    if "--mask-range" in options:
        start, more = "mask-range", ("--mask-range", 14)
    printed = call(
        "generate",
        *decoding(toy_bin, tmp_path / "checkpoint_last.pt"),
        "--decode-strategy",
        "refine",
        "--decode-start",
        start,
        "--gen-subset",
        "valid",
        *more,
    )
    assert len(hypotheses(printed)) == 100
