"""A toy data-bin and a teacher trained on it for a few updates, shared by the command-line tests."""

from pathlib import Path

import pytest
from toy_gmlm import train_gmlm
from toy_teacher import ROOT, run_command, toy_pairs, write_pairs

from fairseq_gmlm.cli.main import main


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


@pytest.fixture(scope="session")
def toy_gmlm(toy_data, tmp_path_factory) -> Path:
    """A GMLM on the same data, hardly trained."""
    return train_gmlm(toy_data, tmp_path_factory.mktemp("toy-gmlm"))
