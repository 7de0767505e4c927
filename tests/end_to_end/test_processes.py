"""Two processes with gloo, started by torchrun, train as one that takes their batches in turn."""

from pathlib import Path
from typing import Dict

import pytest
import torch
from helpers import toy
from helpers.commands import call, run
from torch import Tensor

# Unlike Adam's, its steps are as large as the gradients, so that a wrong scale shows.
SGD = ("--optimizer", "sgd", "--lr", 0.5)


def weights(folder: Path) -> Dict[str, Tensor]:
    """Parameters after training."""
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 5
    return state["model"]


def validation(folder: Path) -> Dict[str, float]:
    """Sums and counts behind the numbers of the validation."""
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    meters = {name: meter for _, name, _, meter in state["extra_state"]["metrics"]["valid"]}
    names = ("loss", "nll_loss", "length_loss", "accuracy", "masked_share")
    found = {}
    for name in names:
        found[name] = float(meters[name]["sum"])
        found[f"{name}, weight"] = float(meters[name]["count"])
    return found


@pytest.fixture(scope="module")
def one_folder(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process, two micro-batches an update."""
    folder = tmp_path_factory.mktemp("one")
    call(
        "train", *toy.training(toy_bin, folder, optimizer=SGD), "--batch-size", 32,
        "--update-freq", 2, "--max-update", 5,
    )  # fmt: skip
    return folder


DISTRIBUTED = (
    "--distributed-init-method", "env://", "--distributed-world-size", 2,
    "--distributed-no-spawn", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp",
)  # fmt: skip


def test_two_processes(toy_bin: Path, tmp_path: Path, one_folder: Path) -> None:
    """fairseq#3299. fairseq's own launcher insists on GPUs, so torchrun starts them."""
    done = run(
        "train", *toy.training(toy_bin, tmp_path, optimizer=SGD), *DISTRIBUTED, "--batch-size", 32,
        "--max-update", 5, "--user-dir", "fairseq_gmlm", "--valid-subset", "valid", processes=2,
    )  # fmt: skip
    assert "training on 2 devices" in done.out + done.err
    found, one = weights(tmp_path), weights(one_folder)
    assert found.keys() == one.keys()
    for name, expected in one.items():
        torch.testing.assert_close(found[name], expected, atol=1e-5, rtol=1e-4, msg=name)
    # Validation over two processes counts every sentence once.
    assert validation(tmp_path) == pytest.approx(validation(one_folder), rel=1e-4)
