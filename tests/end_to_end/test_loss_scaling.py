"""fairseq's half precision and its reaction to NaN, around this plugin's model and criterion."""

import logging
import math
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import pytest
import torch
from fairseq.trainer import Trainer
from helpers import toy
from helpers.commands import call
from helpers.half import needs_float16

from fairseq_gmlm.compat import load_plain
from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss
from fairseq_gmlm.tasks import nonfinite

# Flattened gradients need a GPU.
FP16 = ("--fp16", "--fp16-no-flatten-grads")
MEMORY_EFFICIENT = ("--fp16", "--memory-efficient-fp16")


class Step(NamedTuple):
    """What an attempt at an update did.

    Attributes:
        scale: the loss scale before and after.
        updates: number of updates before and after.
        changed: whether any parameter did.
        loss: as logged, or None for a skipped update.
    """

    scale: tuple
    updates: tuple
    changed: bool
    loss: Optional[float]


@pytest.fixture()
def steps(monkeypatch: pytest.MonkeyPatch) -> List[Step]:
    """Attempts at updates, noted while fairseq trains."""
    noted: List[Step] = []
    original = Trainer.train_step

    def state(trainer: Trainer) -> Dict[str, Any]:
        scaler = getattr(trainer.optimizer, "scaler", None)
        return {
            "scale": scaler and scaler.loss_scale,
            "updates": trainer.get_num_updates(),
            "weights": [p.detach().clone() for p in trainer.model.parameters()],
        }

    def train_step(trainer: Trainer, samples: Any, raise_oom: bool = False) -> Any:
        before = state(trainer)
        logs = original(trainer, samples, raise_oom)
        after = state(trainer)
        changed = any(not torch.equal(*pair) for pair in zip(before["weights"], after["weights"]))
        pairs = [(before[name], after[name]) for name in ("scale", "updates")]
        noted.append(Step(*pairs, changed, logs and logs["loss"]))
        return logs

    monkeypatch.setattr(Trainer, "train_step", train_step)
    # After an overflow fairseq puts a zero on the GPU, whatever --cpu says.
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor)
    return noted


def train(data: Path, folder: Path, *extra: Any) -> None:
    """40 updates at most, without validation."""
    call(
        "train", *toy.training(data, folder), "--batch-size", 32, "--lr", 0.003,
        "--max-update", 40, "--disable-validation", *extra,
    )  # fmt: skip


def reports(caplog: pytest.LogCaptureFixture) -> List[str]:
    """Errors about losses and gradients."""
    return [r.getMessage() for r in caplog.records if r.name == nonfinite.__name__]


@needs_float16
@pytest.mark.parametrize("options", [FP16, MEMORY_EFFICIENT], ids=["fp16", "memory-efficient"])
def test_an_overflow_halves_the_scale_and_skips_the_update(
    toy_bin: Path,
    tmp_path: Path,
    steps: List[Step],
    caplog: pytest.LogCaptureFixture,
    options: tuple,
) -> None:
    train(toy_bin, tmp_path, *options, "--fp16-init-scale", 2**24, "--num-train-stages", 2)
    skipped = [step for step in steps if step.loss is None]
    taken = [step for step in steps if step.loss is not None]
    assert len(skipped) > 5 and len(taken) == 40
    for before, after in (step.scale for step in skipped):
        assert after == before / 2
    assert not any(step.changed for step in skipped) and all(step.changed for step in taken)
    assert all(before == after for before, after in (step.updates for step in skipped))
    losses = [step.loss for step in taken]
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    # An overflow is the scaler's daily work: nothing is wrong with the sentences.
    assert reports(caplog) == []
    state = load_plain(tmp_path / "checkpoint_last.pt")
    assert state["last_optimizer_state"]["loss_scale"] == steps[-1].scale[1]
    assert all(w.isfinite().all() for w in state["model"].values() if w.is_floating_point())


@needs_float16
def test_losses_in_fp16_are_those_in_float32(
    toy_bin: Path, tmp_path: Path, steps: List[Step]
) -> None:
    """The scale is divided out of the gradients again, and they are not too small for 16 bits."""
    losses = {}
    for name, options in (("float32", ()), ("fp16", FP16)):
        del steps[:]
        train(toy_bin, tmp_path / name, *options, "--max-update", 20, "--clip-norm", 1)
        losses[name] = [step.loss for step in steps]
    assert losses["fp16"] == pytest.approx(losses["float32"], rel=0.02)


@pytest.fixture()
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence 1234 makes any loss NaN."""
    original = GMLMLoss.forward

    def forward(self: GMLMLoss, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Any:
        loss, size, logs = original(self, model, sample, reduce)
        bad = bool(sample["id"].eq(1234).any())
        return loss * (math.nan if bad else 1.0), size, logs

    monkeypatch.setattr(GMLMLoss, "forward", forward)


def test_nan_ends_the_training_and_names_the_sentence(
    toy_bin: Path, tmp_path: Path, poisoned: None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FloatingPointError, match="gradients are Nan/Inf"):
        train(toy_bin, tmp_path, "--max-update", 125, "--update-freq", 2)
    (message,) = reports(caplog)
    assert "the loss is nan on the batch of sentences " in message
    assert "those with such a loss when alone: 1234; lower --lr" in message
    assert (tmp_path / "crash.pt").exists()


@needs_float16
def test_nan_under_fp16_is_skipped_and_named(
    toy_bin: Path,
    tmp_path: Path,
    poisoned: None,
    steps: List[Step],
    caplog: pytest.LogCaptureFixture,
) -> None:
    train(toy_bin, tmp_path, *FP16, "--max-update", 124)
    (message,) = reports(caplog)
    assert "those with such a loss when alone: 1234;" in message
    (skipped,) = (step for step in steps if step.loss is None)
    assert skipped.scale == (128, 64) and not skipped.changed
    assert len(steps) == 125 and steps[-1].loss < 0.8 * steps[0].loss


def test_a_gradient_without_a_number_names_the_batch(
    toy_bin: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The loss is sound, and only its backward pass breaks."""
    original = GMLMLoss.forward

    def forward(self: GMLMLoss, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Any:
        loss, size, logs = original(self, model, sample, reduce)
        if bool(sample["id"].eq(1234).any()):
            bias = model.decoder.layers[0].fc1.bias
            loss = loss + (bias.sum() * 0.0).abs().sqrt()
        return loss, size, logs

    monkeypatch.setattr(GMLMLoss, "forward", forward)
    with pytest.raises(FloatingPointError, match="gradients are Nan/Inf"):
        train(toy_bin, tmp_path, "--max-update", 125)
    (message,) = reports(caplog)
    assert "the update's gradient is not finite, though the loss is " in message
    assert "1234" in message
    assert [r.levelno for r in caplog.records if r.name == nonfinite.__name__] == [logging.ERROR]
