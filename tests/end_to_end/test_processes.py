"""Two processes with gloo, started by torchrun, train as one that takes their batches in turn."""

from pathlib import Path
from typing import Dict, Sequence, Tuple

import pytest
import torch
from helpers import toy
from helpers.commands import Argument, call, run
from torch import Tensor

from fairseq_gmlm.compat import load_plain

# Unlike Adam's, its steps are as large as the gradients, so that a wrong scale shows.
SGD = ("--optimizer", "sgd", "--lr", 0.5)


def weights(folder: Path) -> Dict[str, Tensor]:
    """Parameters after training."""
    state = load_plain(folder / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 5
    return state["model"]


def validation(folder: Path) -> Dict[str, float]:
    """Sums and counts behind the numbers of the validation."""
    state = load_plain(folder / "checkpoint_last.pt")
    meters = {name: meter for _, name, _, meter in state["extra_state"]["metrics"]["valid"]}
    names = ("loss", "nll_loss", "length_loss", "accuracy", "masked_share")
    found = {}
    for name in names:
        found[name] = float(meters[name]["sum"])
        found[f"{name}, weight"] = float(meters[name]["count"])
    return found


DISTRIBUTED = (
    "--distributed-init-method", "env://", "--distributed-world-size", 2,
    "--distributed-no-spawn", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp",
)  # fmt: skip

# Options of both trainings, and those in which they differ: one process takes all micro-batches.
KINDS: Dict[str, Tuple[Sequence[Argument], Sequence[Argument], Sequence[Argument]]] = {
    "workers": (("--batch-size", 32), ("--update-freq", 2), ("--num-workers", 2)),
    # Three batches of validation: a process goes without in the second round, and takes a dummy.
    "micro-batches, stages, rejecter, odd validation": (
        ("--batch-size", 16, "--batch-size-valid", 48, "--num-train-stages", 2,
         "--rejecter", "learned", "--learned-rejecter", "--loss-normalization", "per-sentence"),
        ("--update-freq", 4), ("--update-freq", 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes(toy_bin: Path, tmp_path: Path, kind: str) -> None:
    """fairseq#3299. fairseq's own launcher insists on GPUs, so torchrun starts them."""
    both, of_one, of_two = KINDS[kind]
    one, two = tmp_path / "one", tmp_path / "two"
    more = (*both, "--max-update", 5)
    call("train", *toy.training(toy_bin, one, optimizer=SGD), *more, *of_one)
    done = run(
        "train", *toy.training(toy_bin, two, optimizer=SGD), *DISTRIBUTED, *more, *of_two,
        "--user-dir", "fairseq_gmlm", "--valid-subset", "valid", processes=2,
    )  # fmt: skip
    assert "training on 2 devices" in done.out + done.err
    found, expected = weights(two), weights(one)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-5, rtol=1e-4, msg=name)
    # Validation over two processes counts every sentence once.
    assert validation(two) == pytest.approx(validation(one), rel=1e-4)
