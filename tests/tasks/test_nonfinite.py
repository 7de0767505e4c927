"""A loss that is no number is reported with the batch's ids, the sentences at fault and a remedy."""

import logging
from typing import Any, Callable, Dict, List, Sequence

import pytest
import torch
from helpers import models as make
from torch import nn

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.masking import Corruption
from fairseq_gmlm.tasks import nonfinite
from fairseq_gmlm.tasks.nonfinite import NonfiniteReports, culprits

BROKEN = 9  # the word whose embedding breaks the model


class Optimizer:
    """Does what ``train_step`` asks for."""

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()


class Wrapper(nn.Module):
    """As fairseq's wrappers for several processes; they may not be called by one alone."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the others would have to call it, too")


def parts() -> Any:
    """Task, model with an embedding that is infinite in effect but finite itself, criterion."""
    task = make.task()
    model = make.model(task, seed=1)
    with torch.no_grad():
        model.encoder.embed_tokens.weight[BROKEN] = 1e38
    return task, model, GMLMLoss(GMLMLossConfig(), task)


def batch(sources: Sequence[Sequence[int]]) -> Dict[str, Any]:
    """A batch of sentences 70, 71, ..."""
    ids = range(70, 70 + len(sources))
    return make.sample(sources, make.targets([3] * len(sources)), ids=list(ids))


def messages(caplog: pytest.LogCaptureFixture) -> List[str]:
    """What was said as an error by the reports."""
    return [r.getMessage() for r in caplog.records if r.name == nonfinite.__name__]


def test_the_sentences_at_fault_are_named(caplog: pytest.LogCaptureFixture) -> None:
    task, model, criterion = parts()
    sample = batch([[5, 6, 2], [5, BROKEN, 2], [7, 2], [BROKEN, 2]])
    loss, _, _ = task.train_step(sample, model, criterion, Optimizer(), 41)
    assert not loss.isfinite()
    (message,) = messages(caplog)
    assert message.startswith(
        "update 42: the loss is nan on the batch of sentences 70, 71, 72, 73 (places in the split, "
        "from 0); those with such a loss when alone: 71, 73; lower --lr"
    )
    assert "--clip-norm" in message
    assert caplog.records[-1].levelno == logging.ERROR
    assert model.training


def test_a_sound_batch_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    task, model, criterion = parts()
    for update in range(3):
        task.train_step(batch([[5, 6, 2], [7, 2]]), model, criterion, Optimizer(), update)
    assert messages(caplog) == []


def test_batches_of_the_validation_split_are_named_too(caplog: pytest.LogCaptureFixture) -> None:
    task, model, criterion = parts()
    model.eval()
    task.valid_step(batch([[5, 6, 2], [7, 2]]), model, criterion)
    assert messages(caplog) == []
    loss, _, _ = task.valid_step(batch([[5, BROKEN, 2], [7, 2]]), model, criterion)
    assert not loss.isfinite()
    (message,) = messages(caplog)
    assert message.startswith("validation: the loss is nan on the batch of sentences 70, 71 (")
    assert "those with such a loss when alone: 70;" in message
    task.nonfinite.left = 0
    task.valid_step(batch([[BROKEN, 2]]), model, criterion)
    assert len(messages(caplog)) == 1


def test_a_broken_parameter_is_named_in_place_of_sentences(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task, model, criterion = parts()
    with torch.no_grad():
        model.decoder.layers[1].fc1.weight[0, 0] = float("nan")
    task.train_step(batch([[5, 2], [7, 2]]), model, criterion, Optimizer(), 0)
    (message,) = messages(caplog)
    assert "parameter decoder.layers.1.fc1.weight is not finite, so an earlier update" in message


def check(
    reports: NonfiniteReports, value: float, ids: Sequence[int], update: int, **more: Any
) -> None:
    """Report a loss of this value; alone, sentences with an odd id have it as well."""
    sample = {"id": torch.tensor(ids), "target": torch.tensor(ids)[:, None]}
    reports.check(torch.tensor(value), sample, nn.Linear(1, 1), odd(value), update, **more)


def odd(value: float) -> Callable[[Any, Dict[str, Any]], Any]:
    """A criterion with this loss on odd sentences, 0 on others."""
    return lambda model, sample: (
        torch.tensor(value if bool(sample["id"].remainder(2).any()) else 0.0), 1, {}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([2, 3, 5], "those with such a loss when alone: 3, 5;"),
        ([2, 4], "none has such a loss when it is alone and nothing is dropped out;"),
        ([1, 3], "each has such a loss when it is alone;"),
        (list(range(120)), "0, 1, 2, "),
        (list(range(120)), "48, 49, ... (120 in all) (places"),
        (list(range(120)), "those of the first 50 with such a loss when alone: 1, 3, 5,"),
    ],
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_said_of_the_sentences(
    caplog: pytest.LogCaptureFixture, ids: List[int], said: str, value: float
) -> None:
    check(NonfiniteReports(), value, ids, 0)
    (message,) = messages(caplog)
    assert said in message and f"the loss is {value} on" in message
    assert "50," not in message.split(";")[0]


def test_the_number_of_reports_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    reports = NonfiniteReports()
    for update in range(100):
        check(reports, float("inf"), [1], update)
    said = messages(caplog)
    assert len(said) == nonfinite.MOST_REPORTS + 1
    assert said[-1] == "such batches are not reported any more"


def test_fairseqs_second_run_of_an_update_reports_nothing_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = NonfiniteReports()
    for _ in range(2):  # two micro-batches, of which one is broken
        check(reports, float("nan"), [1, 2], 7, once=True)
        check(reports, 1.5, [3, 4], 7, once=True)
    (message,) = messages(caplog)
    assert "sentences 1, 2 (" in message


def test_a_second_run_with_a_sound_loss_means_the_gradient(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = NonfiniteReports()
    for update in (6, 7, 7):
        check(reports, 1.5, [3, 4], update, once=True)
    (message,) = messages(caplog)
    assert message.startswith(
        "update 8: the update's gradient is not finite, though the loss is 1.5 on the batch of "
        "sentences 3, 4 ("
    )
    for _ in range(2):  # under a loss scaler an update is simply tried again
        check(reports, 1.5, [3, 4], 8)
    assert len(messages(caplog)) == 1


def test_wrappers_for_several_processes_are_not_called(caplog: pytest.LogCaptureFixture) -> None:
    task, model, criterion = parts()
    sample = batch([[5, 6, 2], [BROKEN, 2]])
    sample["corruption"] = task.corrupt(sample, 1, 0)
    wrapped = Wrapper(Wrapper(model))
    NonfiniteReports().check(torch.tensor(float("nan")), sample, wrapped, criterion, 0)
    assert "when alone: 71;" in messages(caplog)[0]


def test_culprits_are_found_in_any_batch_of_the_tasks() -> None:
    """A batch's tensors have a row for each sentence, the corruption's as well."""
    _, model, criterion = parts()
    sample = batch([[BROKEN, 2], [6, 2], [7, 8, BROKEN, 2]])
    real = sample["target"].gt(3)
    sample["corruption"] = Corruption(sample["target"].masked_fill(real, 24), real, real)
    assert culprits(sample, model, criterion) == [0, 2]
    assert not model.training
