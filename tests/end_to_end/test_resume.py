"""Training 2n updates equals training n, stopping or being killed, and resuming: bit for bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Tuple

import pytest
import torch
from helpers import toy
from helpers.commands import PACKAGE, Argument, call
from torch import Tensor

from fairseq_gmlm.compat import load_plain

UPDATES = 48  # an epoch has 32


def arguments(data: Path, save: Path, updates: int) -> Tuple[Argument, ...]:
    """Dropout, noise of every kind, two stages and micro-batches: all that could differ."""
    return (
        *toy.training(data, save), "--dropout", 0.1, "--attention-dropout", 0.1,
        "--keep-prob", 0.1, "--random-prob", 0.1, "--num-train-stages", 2, "--lr", 0.001,
        "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 10, "--max-update", updates,
        "--disable-validation", "--save-interval-updates", 6, "--keep-interval-updates", 1,
    )  # fmt: skip


def weights(folder: Path) -> Dict[str, Tensor]:
    """Parameters and the optimizer's moments."""
    state = load_plain(folder / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == UPDATES
    moments = {
        f"{i}.{name}": value
        for i, entry in state["last_optimizer_state"]["state"].items()
        for name, value in entry.items()
        if isinstance(value, Tensor)
    }
    return {**state["model"], **moments}


@pytest.fixture(scope="module")
def straight(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Tensor]:
    """The weights of one uninterrupted run."""
    folder = tmp_path_factory.mktemp("straight")
    call("train", *arguments(toy_bin, folder, UPDATES))
    return weights(folder)


def assert_same(folder: Path, expected: Dict[str, Tensor]) -> None:
    """Every bit."""
    found = weights(folder)
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


@pytest.mark.parametrize("stop", [24, 32, 41])
def test_stopped_and_resumed(
    toy_bin: Path, tmp_path: Path, straight: Dict[str, Tensor], stop: int
) -> None:
    """In the middle of an epoch, at its end, and in the second one."""
    call("train", *arguments(toy_bin, tmp_path, stop))
    call("train", *arguments(toy_bin, tmp_path, UPDATES))
    assert_same(tmp_path, straight)


def test_killed_and_resumed(toy_bin: Path, tmp_path: Path, straight: Dict[str, Tensor]) -> None:
    """SIGKILL as soon as there is something to resume from, whatever is being done then."""
    line = [
        sys.executable, "-m", "fairseq_cli.train",
        *map(str, arguments(toy_bin, tmp_path, UPDATES)), "--user-dir", str(PACKAGE),
    ]  # fmt: skip
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=PACKAGE.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        while process.poll() is None and not (tmp_path / "checkpoint_last.pt").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode in (-signal.SIGKILL, 0)
    call("train", *arguments(toy_bin, tmp_path, UPDATES))
    assert_same(tmp_path, straight)


def test_noise_depends_on_the_seed(
    toy_bin: Path, tmp_path: Path, straight: Dict[str, Tensor]
) -> None:
    args = [*arguments(toy_bin, tmp_path, UPDATES)]
    args[args.index("--seed") + 1] = 2
    call("train", *args)
    assert not torch.equal(
        weights(tmp_path)["decoder.layers.0.fc1.weight"], straight["decoder.layers.0.fc1.weight"]
    )
