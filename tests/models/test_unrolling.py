"""Training stages against a loop written out by hand (spec 3.3)."""

import math
from argparse import Namespace
from typing import Any, Dict, List, Optional

import padir_support as support
import pytest
import torch

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.masking import Corruption
from fairseq_gmlm.models.unrolling import summed_best

SOURCE = torch.tensor([[4, 5, 6, 2], [7, 8, 2, 1]])
TARGET = torch.tensor([[0, 4, 5, 6, 7, 2], [0, 8, 9, 2, 1, 1]])
MASKED = torch.tensor([[0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 0, 0]]).bool()
FREE = torch.tensor([[0, 1, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0]]).bool()


def batch(task: Any) -> Dict[str, Any]:
    """Two sentences, five masked words and one that is noised but kept."""
    tokens = TARGET.masked_fill(MASKED, task.vocabulary.mask)
    noised = MASKED.clone()
    noised[0, 2] = True
    return {
        "id": torch.arange(2),
        "ntokens": 6,
        "net_input": {"src_tokens": SOURCE, "src_lengths": SOURCE.ne(1).sum(1)},
        "target": TARGET,
        "corruption": Corruption(tokens, noised, MASKED),
    }


def criterion(task: Any, **options: Any) -> GMLMLoss:
    return GMLMLoss(GMLMLossConfig(**options), task)


def nll(logits: List[float], gold: int, smoothing: float, z_loss: float) -> float:
    most = max(logits)
    log_z = most + math.log(sum(math.exp(x - most) for x in logits))
    smooth = sum(log_z - x for x in logits) / len(logits)
    return (1 - smoothing) * (log_z - logits[gold]) + smoothing * smooth + z_loss * log_z**2


def by_hand(
    model: Any,
    task: Any,
    stages: int,
    first: str,
    smoothing: float = 0.0,
    z_loss: float = 0.0,
    remask: Optional[Any] = None,
) -> List[float]:
    """Sums of the stages' losses, one sentence at a time, in plain loops."""
    sums = [0.0] * stages
    data = batch(task)
    for row in range(2):
        size = int(TARGET[row].ne(1).sum())
        source = SOURCE[row : row + 1, : int(SOURCE[row].ne(1).sum())]
        gold = TARGET[row, :size].tolist()
        initial = data["corruption"].tokens[row, :size].tolist()
        tokens, total = list(initial), None
        for stage in range(stages):
            logits = model(source, None, torch.tensor([tokens]))[0].tolist()
            counted = {"masked": MASKED, "noised": data["corruption"].noised, "all": FREE}[
                first if stage == 0 else "all"
            ][row]
            sums[stage] += sum(
                nll(logits[i], gold[i], smoothing, z_loss) for i in range(size) if counted[i]
            )
            banned = set(model.banned.tolist())
            allowed = [
                [-math.inf if v in banned else x for v, x in enumerate(line)] for line in logits
            ]
            total = (
                allowed
                if total is None
                else [[a + b for a, b in zip(x, y)] for x, y in zip(total, allowed)]
            )
            best = [line.index(max(line)) for line in allowed]
            draft = [gold[0], *best[1:-1], gold[-1]]
            tokens = remask(initial, tokens, draft, allowed, total, stage) if remask else draft
    return sums


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("first", ["masked", "noised", "all"])
def test_losses_are_those_worked_out_by_hand(stages: int, first: str) -> None:
    task = support.task()
    model = support.model(task, seed=8)
    made = criterion(task, num_train_stages=stages, loss_weights=first, length_loss_weight=0.0)
    loss, size, logs = made(model, batch(task))
    expected = by_hand(model, task, stages, first)
    assert float(loss) == pytest.approx(sum(expected), abs=1e-3)
    assert [float(logs[f"nll_{i + 1}"]) for i in range(stages)] == pytest.approx(expected, abs=1e-3)
    counts = {"masked": 5, "noised": 6, "all": 6}
    assert float(size) == counts[first] + 6 * (stages - 1)


def test_smoothing_and_z_loss_by_hand() -> None:
    task = support.task()
    model = support.model(task, seed=8)
    made = criterion(
        task, num_train_stages=2, label_smoothing=0.1, z_loss=0.01, length_loss_weight=0.0
    )
    loss, _, _ = made(model, batch(task))
    expected = sum(by_hand(model, task, 2, "masked", 0.1, 0.01))
    assert float(loss) == pytest.approx(expected, abs=1e-3)


def stutters(draft: List[int]) -> List[int]:
    return [i for i in range(2, len(draft) - 1) if draft[i] == draft[i - 1]]


@pytest.mark.parametrize("source", ["initial", "previous", "logits-sum"])
@pytest.mark.parametrize("rejecter", ["linear-schedule", "stutter", "constant"])
def test_remasking_between_stages_by_hand(source: str, rejecter: str) -> None:
    more = {"bottom_k": 1} if rejecter == "constant" else {}
    task = support.task(rejecter=rejecter, remask_stutter=rejecter == "constant", **more)
    model = support.model(task, seed=8)
    made = criterion(
        task,
        num_train_stages=3,
        stage_remasking=source,
        loss_weights="all",
        length_loss_weight=0.0,
    )
    touched = []

    def remask(initial, shown, draft, allowed, total, stage):
        size = len(draft) - 2
        best = [max(line) - math.log(sum(math.exp(x) for x in line)) for line in allowed]
        order = sorted(range(1, size + 1), key=lambda i: best[i])
        if rejecter == "linear-schedule":
            again = order[: max(1, size * (3 - stage - 1) // 3) if stage < 2 else 0]
        elif rejecter == "constant":
            again = {*order[:1], *stutters(draft)}
        else:
            again = stutters(draft)
        touched.extend(again)
        summed = [line.index(max(line)) for line in total]
        new = {"initial": initial, "previous": shown, "logits-sum": summed}[source]
        return [new[i] if i in again else token for i, token in enumerate(draft)]

    expected = by_hand(model, task, 3, "all", remask=remask)
    _, _, logs = made(model, batch(task))
    assert [float(logs[f"nll_{i}"]) for i in (1, 2, 3)] == pytest.approx(expected, abs=1e-3)
    assert touched


def test_the_learned_rejecter_remasks_between_stages() -> None:
    task = support.task(rejecter="learned")
    model = support.model(task, seed=8, learned_rejecter=True)
    with torch.no_grad():  # everything is held to be wrong, so stage 2 sees stage 1's input
        model.rejecter.bias.copy_(torch.tensor([1e4, -1e4]))
    made = criterion(
        task,
        num_train_stages=2,
        stage_remasking="initial",
        loss_weights="all",
    )
    _, _, logs = made(model, batch(task))
    assert float(logs["nll_1"]) == pytest.approx(float(logs["nll_2"]), abs=1e-4)


def test_padding_bos_and_eos_stay_in_later_stages() -> None:
    """Quirk 1: a prediction at a pad would be read as a word from the second stage on."""
    task = support.task()
    model = support.model(task, seed=8)
    seen = []
    model.decoder.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    criterion(task, num_train_stages=3)(model, batch(task))
    assert len(seen) == 3
    for tokens in seen:
        assert torch.equal(tokens[~FREE], TARGET[~FREE])
    assert not bool(torch.isin(seen[1][FREE], model.banned).any())


def test_the_encoder_runs_once_for_all_stages() -> None:
    """Quirk 11."""
    task = support.task()
    model = support.model(task)
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    criterion(task, num_train_stages=3)(model, batch(task))
    assert len(calls) == 1


@pytest.mark.parametrize("stages", [1, 2])
def test_normalisations(stages: int) -> None:
    task = support.task()
    model = support.model(task, seed=8)
    options = {"num_train_stages": stages, "length_loss_weight": 0.0}
    tokens, size, _ = criterion(task, **options)(model, batch(task))
    assert float(size) == 5 + 6 * (stages - 1)
    sentences, size, _ = criterion(task, loss_normalization="sentences", **options)(
        model, batch(task)
    )
    assert float(sentences) == pytest.approx(float(tokens), rel=1e-6) and float(size) == 2
    means, size, _ = criterion(task, loss_normalization="per-sentence", **options)(
        model, batch(task)
    )
    assert float(size) == 2
    expected = 0.0
    whole = batch(task)
    for row, (first, later) in enumerate(((3, 4), (2, 2))):
        part = {
            **whole,
            "net_input": {k: v[row : row + 1] for k, v in whole["net_input"].items()},
            "target": whole["target"][row : row + 1],
            "corruption": Corruption(*(x[row : row + 1] for x in whole["corruption"])),
        }
        _, _, logs = criterion(task, **options)(model, part)
        expected += float(logs["nll_1"]) / first
        expected += float(logs["nll_2"]) / later if stages == 2 else 0.0
    assert float(means) == pytest.approx(expected, rel=1e-5)


def test_weights_of_the_length_and_rejecter_losses() -> None:
    """Quirk 9: the length loss has a weight, and its share does not grow with the batch."""
    task = support.task()
    model = support.model(task, seed=8, learned_rejecter=True)
    losses = {}
    for length, rejecter in ((0.0, 0.0), (1.0, 0.0), (2.5, 0.0), (0.0, 1.0), (0.0, 3.0)):
        made = criterion(task, length_loss_weight=length, rejecter_loss_weight=rejecter)
        loss, _, logs = made(model, batch(task))
        losses[length, rejecter] = float(loss)
    plain = losses[0.0, 0.0]
    assert losses[1.0, 0.0] - plain == pytest.approx(float(logs["length_loss"]), abs=1e-4)
    assert losses[2.5, 0.0] - plain == pytest.approx(2.5 * float(logs["length_loss"]), abs=1e-3)
    assert losses[0.0, 1.0] - plain == pytest.approx(float(logs["rejecter_loss_1"]), abs=1e-4)
    assert losses[0.0, 3.0] - plain == pytest.approx(3 * float(logs["rejecter_loss_1"]), abs=1e-3)


def test_the_rejecter_learns_whether_the_best_token_is_right() -> None:
    task = support.task()
    model = support.model(task, seed=8, learned_rejecter=True)
    data = batch(task)
    logits = model(SOURCE, None, data["corruption"].tokens)
    states = model.decode(data["corruption"].tokens, model.encode(SOURCE)).states
    right = logits.index_fill(-1, model.banned, -math.inf).argmax(-1).eq(TARGET)
    log_probs = model.rejecter(states).log_softmax(-1)
    expected = -torch.where(right, log_probs[..., 1], log_probs[..., 0])[FREE].sum()
    _, _, logs = criterion(task)(model, data)
    assert float(logs["rejecter_loss_1"]) == pytest.approx(float(expected), abs=1e-4)
    judged = model.rejecter(states).argmax(-1).bool().eq(right)[FREE].sum()
    assert int(logs["rejecter_correct_1"]) == int(judged)


def test_the_rejecters_loss_reaches_nothing_but_its_head() -> None:
    task = support.task()
    model = support.model(task, learned_rejecter=True)
    made = criterion(task, num_train_stages=2)
    out = model(SOURCE, None, batch(task)["corruption"].tokens, plan=made.plan(batch(task))[0])
    sum(stage.loss for stage in out.rejecter).backward()
    reached = {name for name, p in model.named_parameters() if p.grad is not None}
    assert reached == {"rejecter.weight", "rejecter.bias"}
    assert len(out.rejecter) == 2


def test_summed_best_by_hand() -> None:
    where = torch.tensor([[False, True, True], [True, False, False]])
    total = torch.tensor([[0.0, 1.0], [3.0, 2.0], [0.0, 5.0]])
    assert summed_best(total, where).tolist() == [[-1, 1, 0], [1, -1, -1]]


def test_one_stage_keeps_no_buffer_of_logits() -> None:
    with pytest.raises(ValueError, match="--num-train-stages 2 or more"):
        criterion(support.task(rejecter="stutter"), stage_remasking="logits-sum")


@pytest.mark.parametrize(
    "task_options,options,match",
    [
        ({}, {"num_train_stages": 2, "stage_remasking": "initial"}, "nothing to replace"),
        ({}, {"num_train_stages": 0}, "--num-train-stages"),
        ({}, {"label_smoothing": 1.0}, "--label-smoothing"),
        (
            {"rejecter": "constant"},
            {"num_train_stages": 2, "stage_remasking": "initial"},
            "exactly one of --bottom-k",
        ),
    ],
)
def test_refusals(task_options: Dict[str, Any], options: Dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        criterion(support.task(**task_options), **options)


def test_stage_remasking_needs_a_task_with_rejecters() -> None:
    task = Namespace(cfg=Namespace(), corrupt=None)
    with pytest.raises(ValueError, match="--task translation_gmlm"):
        criterion(task, num_train_stages=2, stage_remasking="initial")


def test_masks_per_position_count_as_masks() -> None:
    """Quirk 3: with one mask per position the loss is on the masked words all the same."""
    target = {"id": torch.arange(2), "target": TARGET, "net_input": {}}
    plain, ranged = (support.task(mask_range=n).corrupt(target, 1, 3) for n in (0, 6))
    assert bool(plain.masked.any()) and torch.equal(plain.masked, ranged.masked)
    assert not torch.equal(plain.tokens, ranged.tokens)
    for task, corruption in ((support.task(), plain), (support.task(mask_range=6), ranged)):
        data = {**batch(task), "corruption": corruption}
        _, size, _ = criterion(task, loss_weights="masked")(support.model(task), data)
        assert float(size) == int(plain.masked.sum())
