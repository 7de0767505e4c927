"""torch's DistributedDataParallel around the models; ``--ddp-backend pytorch_ddp`` of fairseq.

fairseq names a GPU to it even with ``--cpu``, so here two processes wrap the model themselves.
"""

import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from helpers import models as make
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig

PARTS = ([0, 1, 2], [3, 4, 5])  # one process's sentences, and the other's
SOURCES, TARGETS = make.sources((3, 6, 2, 5, 4, 7)), make.targets((4, 5, 1, 7, 3, 6))

# Options of the loss and the model, and whether some parameters get no gradient.
KINDS: Dict[str, Tuple[Dict[str, Any], Dict[str, Any], bool]] = {
    "plain": ({}, {}, False),
    "two stages, smoothed, z-loss": (
        {"num_train_stages": 2, "label_smoothing": 0.1, "z_loss": 0.01}, {}, False,
    ),
    "rejecter, per sentence": (
        {"num_train_stages": 2, "loss_normalization": "per-sentence"},
        {"learned_rejecter": True}, False,
    ),
    "no weight on the length": ({"length_loss_weight": 0.0}, {}, False),
    "frozen length head": ({}, {"freeze_length": True}, True),
    "frozen decoder": ({}, {"freeze_decoder": True}, True),
}  # fmt: skip


def parts(kind: str) -> Tuple[Any, Any, GMLMLoss]:
    """Task, model and criterion."""
    loss, model, _ = KINDS[kind]
    task = make.task()
    return task, make.model(task, seed=1, **model), GMLMLoss(GMLMLossConfig(**loss), task)


def batch(task: Any, rows: List[int]) -> Dict[str, Any]:
    """Some of the sentences, corrupted as in training."""
    sample = make.sample([SOURCES[i] for i in rows], [TARGETS[i] for i in rows], ids=rows)
    sample["corruption"] = task.corrupt(sample, 1, 3)
    return sample


def gradients(model: torch.nn.Module) -> Dict[str, Tensor]:
    """Gradients by name, zero where there is none."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }


def work(rank: int, folder: str, kind: str, unused: bool) -> None:
    """Two updates in one process; the second fails if the first left a parameter out."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/store", timedelta(minutes=2), rank=rank, world_size=2
    )
    try:
        task, model, criterion = parts(kind)
        wrapped = DistributedDataParallel(model, find_unused_parameters=unused)
        for _ in range(2):
            model.zero_grad()
            loss, size, _ = criterion(wrapped, batch(task, PARTS[rank]))
            loss.backward()
        torch.save((gradients(model), float(size)), f"{folder}/{rank}.pt")
    except RuntimeError:
        Path(folder, f"{rank}.error").write_text(traceback.format_exc())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_have_the_gradient_of_one(kind: str, tmp_path: Path) -> None:
    """DDP takes the mean over processes of sums over tokens; fairseq multiplies by 2 / size."""
    unused = KINDS[kind][2]
    mp.start_processes(work, (str(tmp_path), kind, unused), nprocs=2, start_method="fork")
    assert [error.read_text() for error in tmp_path.glob("*.error")] == []
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    task, model, criterion = parts(kind)
    loss, size, _ = criterion(model, batch(task, [*PARTS[0], *PARTS[1]]))
    loss.backward()
    assert found[0][1] + found[1][1] == pytest.approx(float(size))
    for name, expected in gradients(model).items():
        for mine, _ in found:
            torch.testing.assert_close(mine[name] * 2, expected, atol=1e-5, rtol=1e-4, msg=name)


def test_parameters_without_a_gradient_need_an_option(tmp_path: Path) -> None:
    """As docs/scaling.md says."""
    kind = "frozen length head"
    mp.start_processes(work, (str(tmp_path), kind, False), nprocs=2, start_method="fork")
    errors = [error.read_text() for error in tmp_path.glob("*.error")]
    assert len(errors) == 2 and all("find_unused_parameters" in error for error in errors)
