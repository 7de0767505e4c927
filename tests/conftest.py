"""Fixtures that several test modules share."""

import fcntl
import os
from pathlib import Path
from typing import List

import pytest
import torch

# One thread a process: the tests are small, and threads only get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """Let files go to xdist's workers in the order below; by itself it starts with many tests."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def toy_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw text of the copy-and-reverse task; test sentences occur nowhere else."""
    from helpers.toy import write_corpus

    return write_corpus(tmp_path_factory.mktemp("toy-raw"))


@pytest.fixture(scope="session")
def toy_bin(toy_raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task as a data-bin with a joined dictionary."""
    from helpers.toy import binarize

    return binarize(toy_raw, tmp_path_factory.mktemp("toy") / "bin")


@pytest.fixture(scope="session")
def toy_run(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of checkpoints of a model that has been trained for about a minute, by one process."""
    from helpers.toy import train_solver

    folder = tmp_path_factory.getbasetemp() / "toy-run"
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parents[1] / folder.name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            train_solver(toy_bin, partial)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def short_run(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of checkpoints of a model trained for a few updates, with BLEU at validation."""
    from helpers.toy import train_short

    return train_short(toy_bin, tmp_path_factory.mktemp("short-run"))
