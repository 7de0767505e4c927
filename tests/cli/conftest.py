"""A toy data-bin and a teacher trained on it for a few updates, shared by the command-line tests."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

import pytest

from fairseq_gmlm.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def toy_pairs(count: int, seed: int) -> List[Tuple[str, str]]:
    """Sentences of five words in two made-up languages, the second one backwards."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [f"w{rng.randrange(12)}" for _ in range(rng.randrange(1, 9))]
        pairs.append((" ".join(words), " ".join(f"v{word[1:]}" for word in reversed(words))))
    return pairs


def write_pairs(prefix: Path, pairs: List[Tuple[str, str]]) -> None:
    """Write ``PREFIX.en`` and ``PREFIX.de``."""
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{language}").write_bytes(text.encode("utf-8"))


def run_command(*arguments: object, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m ...`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory) -> Path:
    """A data-bin with 320 train, 20 valid and 20 test pairs."""
    folder = tmp_path_factory.mktemp("toy")
    for seed, (name, count) in enumerate([("train", 320), ("valid", 20), ("test", 20)]):
        write_pairs(folder / name, toy_pairs(count, seed))
    prefixes = [x for n in ("train", "valid", "test") for x in (f"--{n}pref", str(folder / n))]
    status = main(
        [
            *["prepare", "-s", "en", "-t", "de", *prefixes],
            *["--bpe-merges", "40", "--destdir", str(folder / "bin")],
        ]
    )
    assert status == 0
    return folder / "bin"


@pytest.fixture(scope="session")
def toy_checkpoints(toy_data, tmp_path_factory) -> Path:
    """The save-dir of a tiny autoregressive transformer trained for sixty epochs, saved at every 20th."""
    folder = tmp_path_factory.mktemp("teacher")
    sizes = [
        f"--{side}-{option}={value}"
        for side in ("encoder", "decoder")
        for option, value in [
            ("layers", 1),
            ("embed-dim", 32),
            ("ffn-embed-dim", 64),
            ("attention-heads", 2),
        ]
    ]
    done = run_command(
        "fairseq_cli.train",
        toy_data,
        *["--task", "translation", "--arch", "transformer", *sizes, "--share-all-embeddings"],
        *["--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "60"],
        *["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--cpu"],
        *["--num-workers", "0", "--save-dir", folder, "--user-dir", ROOT / "fairseq_gmlm"],
        *["--best-checkpoint-metric", "loss", "--keep-best-checkpoints", "2", "--seed", "3"],
        *["--save-interval", "20", "--validate-interval", "20", "--log-interval", "1000"],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def toy_teacher(toy_checkpoints) -> Path:
    """Its last checkpoint."""
    return toy_checkpoints / "checkpoint_last.pt"
