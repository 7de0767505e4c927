"""Two processes with gloo, started by torchrun, train as one that takes their batches in turn."""

import socket
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


@pytest.fixture(scope="module")
def one(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Tensor]:
    """One process, two micro-batches an update."""
    folder = tmp_path_factory.mktemp("one")
    call(
        "train", *toy.training(toy_bin, folder, optimizer=SGD), "--batch-size", 32,
        "--update-freq", 2, "--max-update", 5, "--disable-validation",
    )  # fmt: skip
    return weights(folder)


@pytest.mark.parametrize("backend", ["legacy_ddp", "pytorch_ddp"])
def test_two_processes(toy_bin: Path, tmp_path: Path, one: Dict[str, Tensor], backend: str) -> None:
    """fairseq#3299. fairseq's own launcher insists on GPUs, so torchrun starts them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run(
        "train", *toy.training(toy_bin, tmp_path, optimizer=SGD), "--batch-size", 32,
        "--max-update", 5, "--distributed-backend", "gloo", "--ddp-backend", backend, "--user-dir", "fairseq_gmlm",
        "--max-valid-steps", 2,
        launcher=(
            "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(port),
        ),
    )  # fmt: skip
    found = weights(tmp_path)
    assert found.keys() == one.keys()
    for name, expected in one.items():
        if expected.is_floating_point():
            torch.testing.assert_close(found[name], expected, atol=1e-5, rtol=1e-4, msg=name)
