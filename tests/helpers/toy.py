"""The copy-and-reverse task: small enough to learn in a minute, with answers known exactly."""

import random
from pathlib import Path
from typing import List, Sequence, Tuple

from helpers.commands import Argument, call, run

WORDS = [chr(ord("a") + i) * 2 for i in range(12)]
SHORTEST, LONGEST = 2, 5
SIZES = {"test": 200, "valid": 100, "train": 4000}
POSITIONS = ("--max-source-positions", 16, "--max-target-positions", 16)


def answer(source: str) -> str:
    """The one right translation."""
    kind, *words = source.split()
    return " ".join(words if kind == "copy" else reversed(words))


def sentences(seed: int = 1) -> List[str]:
    """Distinct sources: ``copy`` or ``reverse``, then words."""
    rng = random.Random(seed)
    found = {}
    while len(found) < sum(SIZES.values()):
        words = rng.choices(WORDS, k=rng.randint(SHORTEST, LONGEST))
        found[" ".join([rng.choice(["copy", "reverse"]), *words])] = None
    return list(found)


def write_corpus(folder: Path) -> Path:
    """Write train, valid and test as text, languages ``a`` and ``b``; they share no sentence."""
    rest = sentences()
    for split, size in SIZES.items():
        part, rest = rest[:size], rest[size:]
        (folder / f"{split}.a").write_text("".join(s + "\n" for s in part), "utf-8")
        (folder / f"{split}.b").write_text("".join(answer(s) + "\n" for s in part), "utf-8")
    return folder


def binarize(raw: Path, folder: Path, *extra: Argument) -> Path:
    """``fairseq-preprocess`` with a joined dictionary."""
    splits = [x for s in ("train", "valid", "test") for x in (f"--{s}pref", raw / s)]
    call(
        "preprocess", "-s", "a", "-t", "b", *splits, "--destdir", folder, "--joined-dictionary",
        *extra,
    )  # fmt: skip
    return folder


ADAM = ("--optimizer", "adam", "--adam-betas", "(0.9,0.98)")


def training(data: Path, save: Path, *, optimizer: Sequence[Argument] = ADAM) -> List[Argument]:
    """Arguments of ``fairseq-train`` that all toy runs share.

    ``--data-buffer-size 0``: with a buffer's thread, fairseq ends with status 134 when
    ``--max-update`` stops it in the middle of an epoch.
    """
    return [
        data, "--save-dir", save, "--task", "translation_gmlm", "--arch", "gmlm_transformer_tiny",
        "--criterion", "gmlm_loss", *POSITIONS, "--share-all-embeddings",
        "--encoder-learned-pos", "--decoder-learned-pos",
        "--encoder-normalize-before", "--decoder-normalize-before", "--decoder-layers", 1,
        "--encoder-attention-heads", 2, "--decoder-attention-heads", 2,
        "--dropout", 0, *optimizer,
        "--batch-size", 128, "--num-workers", 0, "--data-buffer-size", 0, "--cpu",
        "--no-epoch-checkpoints", "--log-format", "simple", "--seed", 1,
    ]  # fmt: skip


def train_solver(data: Path, save: Path) -> Path:
    """Train until the task is solved, about a minute on one thread."""
    run(
        "train", *training(data, save), "--user-dir", "fairseq_gmlm",
        "--lr", 0.003, "--lr-scheduler", "polynomial_decay", "--warmup-updates", 100,
        "--total-num-update", 1500, "--max-update", 1500, "--validate-interval", 100,
    )  # fmt: skip
    return save


BLEU = (
    "--eval-bleu", "--eval-bleu-args", '{"iter_decode_max_iter": 3, "iter_decode_with_beam": 2}',
    "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
)  # fmt: skip


def train_short(data: Path, save: Path) -> Path:
    """Train for 60 updates with three validations, BLEU deciding which checkpoint is best."""
    log = run(
        "train", *training(data, save), "--user-dir", "fairseq_gmlm", *BLEU,
        "--lr", 0.003, "--max-update", 60, "--validate-interval-updates", 30,
    )  # fmt: skip
    (save / "log").write_text(log.out + log.err, "utf-8")
    return save


def decoding(data: Path, checkpoint: Path) -> Tuple[Argument, ...]:
    """Arguments of ``fairseq-generate`` and ``fairseq-interactive`` that all toy runs share."""
    return (
        data, "--path", checkpoint, "--task", "translation_gmlm", *POSITIONS, "--cpu",
    )  # fmt: skip
