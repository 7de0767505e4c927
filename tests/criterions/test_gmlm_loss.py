"""The loss: one token counts the same however the batch is cut, and its gradients are right."""

import math
from argparse import Namespace
from typing import Any, Dict, List, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from helpers import models as make
from helpers.half import MODEL_DTYPES
from torch import Tensor

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.tasks.masked import in_train_dtype
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMTask

SOURCES = make.sources((3, 6, 2, 5, 4, 7))
TARGETS = make.targets((4, 5, 1, 7, 3, 6))
UPDATE = 12


def build(
    loss: Optional[Dict[str, Any]] = None,
    model: Optional[Dict[str, Any]] = None,
    task: Optional[Dict[str, Any]] = None,
) -> Tuple[GMLMTransformerModel, GMLMLoss, TranslationGMLMTask]:
    """Model, criterion and task with these options."""
    owner = make.task(**(task or {}))
    built = make.model(owner, seed=1, **(model or {}))
    return built, GMLMLoss(GMLMLossConfig(**(loss or {})), owner), owner


def batch(rows: List[int], owner: TranslationGMLMTask, left: bool = True) -> Dict[str, Any]:
    """Some of the sentences, corrupted as in training."""
    sample = make.sample(
        [SOURCES[i] for i in rows], [TARGETS[i] for i in rows], left, ids=[100 + i for i in rows]
    )
    sample["corruption"] = owner.corrupt(sample, 1, UPDATE)
    return sample


def gradients(
    model: GMLMTransformerModel,
    criterion: GMLMLoss,
    owner: TranslationGMLMTask,
    parts: List[List[int]],
    left: bool = True,
) -> Tuple[Dict[str, Tensor], float]:
    """Gradients of the loss summed over micro-batches, divided by the total size, as fairseq does."""
    model.zero_grad()
    size = 0.0
    for rows in parts:
        loss, sample_size, _ = criterion(model, batch(rows, owner, left))
        loss.backward()
        size += float(sample_size)
    grads = {n: p.grad / size for n, p in model.named_parameters() if p.grad is not None}
    return grads, size


LOSSES: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "smoothed": {"label_smoothing": 0.1},
    "z-loss": {"z_loss": 0.01},
    "noised": {"loss_weights": "noised"},
    "all": {"loss_weights": "all"},
    "two stages": {"num_train_stages": 2},
    "three stages, smoothed": {
        "num_train_stages": 3,
        "label_smoothing": 0.2,
        "length_label_smoothing": 0.1,
    },
    "sentences": {"loss_normalization": "sentences"},
    "per sentence": {"loss_normalization": "per-sentence", "num_train_stages": 2},
    "no length": {"length_loss_weight": 0.0},
}


@pytest.mark.parametrize("kind", LOSSES)
def test_gradients_do_not_depend_on_how_the_batch_is_cut(kind: str) -> None:
    """``--update-freq`` and more processes change nothing (stock NAT averages means)."""
    parts = build(LOSSES[kind], task={"keep_prob": 0.1, "random_prob": 0.1})
    whole, size = gradients(*parts, [[0, 1, 2, 3, 4, 5]])
    for cut in ([[0], [1], [2], [3], [4], [5]], [[5, 0, 3], [1, 2, 4]], [[2], [0, 1, 3, 4, 5]]):
        found, total = gradients(*parts, cut)
        assert total == pytest.approx(size)
        assert found.keys() == whole.keys()
        for name, grad in whole.items():
            torch.testing.assert_close(found[name], grad, atol=1e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("kind", LOSSES)
def test_padding_on_the_left_or_right_gives_one_loss(kind: str) -> None:
    model, criterion, owner = build(LOSSES[kind])
    rows = [0, 1, 2, 3, 4, 5]
    left, right = (criterion(model, batch(rows, owner, side)) for side in (True, False))
    torch.testing.assert_close(left[0], right[0])
    assert float(left[1]) == float(right[1])


def reference(model: GMLMTransformerModel, sample: Dict[str, Any], cfg: GMLMLossConfig) -> Tensor:
    """The loss written out with plain torch."""
    target, tokens = sample["target"], sample["corruption"].tokens
    corruption = sample["corruption"]
    words = target.gt(3)
    source = sample["net_input"]["src_tokens"]
    memory = model.encode(source)
    total = torch.zeros((), dtype=memory.states.dtype)
    for stage in range(cfg.num_train_stages):
        logits = model.logits(model.decode(tokens, memory).states)
        each = F.cross_entropy(
            logits.flatten(0, 1),
            target.flatten(),
            reduction="none",
            label_smoothing=cfg.label_smoothing,
        ).view_as(target)
        each = each + cfg.z_loss * logits.logsumexp(-1) ** 2
        schemes = {"masked": corruption.masked, "noised": corruption.noised, "all": words}
        weight = (words if stage else schemes[str(cfg.loss_weights)]).to(each.dtype)
        if str(cfg.loss_normalization) == "per-sentence":
            weight = weight / weight.sum(1, keepdim=True).clamp(min=1)
        total = total + (each * weight).sum()
        allowed = logits.detach().clone()
        allowed[..., model.banned] = -torch.inf
        tokens = torch.where(words, allowed.argmax(-1), target)
    length = F.cross_entropy(
        model.lengths(memory),
        target.ne(1).sum(1),
        reduction="sum",
        label_smoothing=cfg.length_label_smoothing,
    )
    return total + cfg.length_loss_weight * length


@pytest.mark.parametrize("kind", LOSSES)
def test_loss_written_out(kind: str) -> None:
    model, criterion, owner = build(
        LOSSES[kind], task={"keep_prob": 0.2, "random_prob": 0.2, "mask_prior": "fixed"}
    )
    sample = batch([0, 1, 2, 3, 4, 5], owner)
    expected = reference(model, sample, criterion.cfg)
    torch.testing.assert_close(criterion(model, sample)[0], expected)


@pytest.mark.parametrize("kind", LOSSES)
def test_gradients_against_finite_differences(kind: str) -> None:
    model, criterion, owner = build(LOSSES[kind], task={"keep_prob": 0.2, "random_prob": 0.2})
    model.double()
    sample = batch([0, 1, 2], owner)
    loss, _, _ = criterion(model, sample)
    loss.backward()
    rng = torch.Generator().manual_seed(0)
    step = 1e-6
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        direction = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
        value = parameter.data.clone()
        with torch.no_grad():
            parameter.data = value + step * direction
            above = float(criterion(model, sample)[0])
            parameter.data = value - step * direction
            below = float(criterion(model, sample)[0])
        parameter.data = value
        slope = (above - below) / (2 * step)
        # The argmax between stages is constant almost everywhere, as the gradient assumes.
        assert float((parameter.grad * direction).sum()) == pytest.approx(
            slope, rel=1e-4, abs=1e-5
        ), name


def test_sample_size_counts_weighted_tokens() -> None:
    for scheme, stages in (("masked", 1), ("noised", 1), ("all", 1), ("masked", 3)):
        model, criterion, owner = build(
            {"loss_weights": scheme, "num_train_stages": stages},
            task={"keep_prob": 0.3, "mask_prior": "fixed", "mask_ratio": 0.5},
        )
        sample = batch([0, 1, 2, 3, 4, 5], owner)
        corruption, words = sample["corruption"], int(sample["target"].gt(3).sum())
        first = {
            "masked": int(corruption.masked.sum()),
            "noised": int(corruption.noised.sum()),
            "all": words,
        }[scheme]
        assert words == 26
        _, size, logs = criterion(model, sample)
        assert float(size) == float(logs["sample_size"]) == first + (stages - 1) * words


@pytest.mark.parametrize("normalization", ["sentences", "per-sentence"])
def test_sample_size_counts_sentences_otherwise(normalization: str) -> None:
    model, criterion, owner = build({"loss_normalization": normalization})
    assert float(criterion(model, batch([0, 1, 2], owner))[1]) == 3.0


def test_nothing_masked_gives_zero_with_a_graph() -> None:
    model, criterion, owner = build({"length_loss_weight": 0.0})
    sample = batch([0, 1], owner)
    sample["corruption"] = sample["corruption"]._replace(
        tokens=sample["target"],
        noised=torch.zeros_like(sample["target"], dtype=torch.bool),
        masked=torch.zeros_like(sample["target"], dtype=torch.bool),
    )
    loss, size, _ = criterion(model, sample)
    assert float(loss) == 0.0 and float(size) == 0.0
    loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_targets_without_words_train() -> None:
    """Empty lines are legal in a corpus; stock's backward raises on them."""
    model, criterion, owner = build({"num_train_stages": 2, "label_smoothing": 0.1})
    sample = make.sample([[2], [2]], [[0, 2], [0, 2]])
    sample["corruption"] = owner.corrupt(sample, 1, 1)
    loss, size, _ = criterion(model, sample)
    loss.backward()
    assert float(size) == 0.0 and loss.isfinite()


def test_later_stages_see_the_models_own_words_and_the_gold_frame() -> None:
    model, criterion, owner = build({"num_train_stages": 2})
    seen = []
    model.decoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    sample = batch([0, 1, 2, 3], owner)
    criterion(model, sample)
    first, second = seen
    target = sample["target"]
    assert torch.equal(first, sample["corruption"].tokens)
    words = target.gt(3)
    assert torch.equal(second[~words], target[~words])
    assert torch.isin(second[words], owner.vocabulary.ordinary).all()
    assert not second.eq(owner.vocabulary.mask).any()


def aggregate(logs: List[Dict[str, Any]]) -> Dict[str, float]:
    """What fairseq would print for these logging outputs."""
    with metrics.aggregate(new_root=True) as meters:
        GMLMLoss.reduce_metrics(logs)
        return dict(meters.get_smoothed_values())


def test_logging_is_a_weighted_mean_whatever_the_cut() -> None:
    model, criterion, owner = build({"num_train_stages": 2})
    with torch.no_grad():
        whole = [criterion(model, batch([0, 1, 2, 3, 4, 5], owner))[2]]
        parts = [criterion(model, batch(rows, owner))[2] for rows in ([0, 1, 2, 3], [4], [5])]
    one, other = aggregate(whole), aggregate(parts)
    assert one.keys() == other.keys()
    for name in (
        "loss", "nll_loss", "length_loss", "length_accuracy", "masked_share", "accuracy",
        "accuracy_2", "word_nll", "word_nll_2", "ppl",
    ):  # fmt: skip
        assert one[name] == pytest.approx(other[name], rel=1e-4), name
    # And summed by fast stat sync, as over several processes.
    summed = {k: sum(float(log[k]) for log in parts) for k in parts[0]}
    assert aggregate([summed])["loss"] == pytest.approx(one["loss"], rel=1e-4)
    assert GMLMLoss.logging_outputs_can_be_summed()


def test_logged_numbers_by_hand() -> None:
    logs = {
        "loss": 8 * math.log(2), "nll_loss": 4 * math.log(2), "length_loss": 3 * math.log(2),
        "length_correct": 1, "masked": 4, "maskable": 10, "ntokens": 14, "nsentences": 2,
        "sample_size": 4, "nll_1": 4 * math.log(2), "correct_1": 3, "count_1": 4, "weight_1": 4,
    }  # fmt: skip
    found = aggregate([logs, logs])
    assert found["loss"] == pytest.approx(2.0)
    assert found["nll_loss"] == pytest.approx(1.0)
    assert found["ppl"] == pytest.approx(2.0)
    assert found["length_loss"] == pytest.approx(1.5)
    assert found["length_accuracy"] == pytest.approx(0.5)
    assert found["masked_share"] == pytest.approx(0.4)
    assert found["accuracy"] == pytest.approx(0.75)


def test_a_log_of_nothing_masked_shows_no_absurd_loss() -> None:
    logs = {
        "loss": 3.0, "nll_loss": 0.0, "length_loss": 3.0, "length_correct": 0, "masked": 0,
        "maskable": 5, "ntokens": 7, "nsentences": 1, "sample_size": 0, "nll_1": 0.0,
        "correct_1": 0, "count_1": 0, "weight_1": 0,
    }  # fmt: skip
    assert aggregate([logs])["loss"] < 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train_stages": 0}, "--num-train-stages must be at least 1, not 0"),
        ({"label_smoothing": 1.0}, r"--label-smoothing must be in \[0, 1\), not 1.0"),
    ],
)
def test_options_out_of_range_are_named(options: Dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(options)


def test_a_foreign_task_is_told_which_one_to_use() -> None:
    class ForeignTask(Namespace):
        """A task that corrupts nothing."""

    with pytest.raises(ValueError, match="task ForeignTask; add: --task translation_gmlm"):
        GMLMLoss(GMLMLossConfig(), ForeignTask(target_dictionary=make.dictionary()))


@pytest.mark.parametrize("dtype", MODEL_DTYPES)
def test_half_precision_losses_are_finite_float32(dtype: torch.dtype) -> None:
    model, criterion, owner = build({"label_smoothing": 0.1, "num_train_stages": 2})
    sample = batch([0, 1, 2, 3, 4, 5], owner)
    expected = float(criterion(model, sample)[0])
    loss, _, logs = criterion(model.to(dtype), sample)
    loss.backward()
    assert float(loss) == pytest.approx(expected, rel=0.1)
    assert logs["nll_loss"].dtype == torch.float32
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# With more stages, an argmax that falls the other way would feed another word to the next one.
ONE_STAGE = [kind for kind, options in LOSSES.items() if "num_train_stages" not in options]


@pytest.mark.parametrize("kind", ONE_STAGE)
def test_bfloat16_autocast_agrees_with_float32(kind: str) -> None:
    """``--train-dtype bfloat16``: the same loss and gradient up to the rounding of eight bits."""
    model, criterion, owner = build(LOSSES[kind])
    model.train()  # dropout is 0: the training path of attention, without its noise
    grads = {}
    losses = {}
    for dtype in ("float32", "bfloat16"):
        owner.cfg.train_dtype = dtype
        model.zero_grad()
        sample = batch([0, 1, 2, 3, 4, 5], owner)
        loss, _, logs = in_train_dtype(owner.cfg, criterion)(model, sample)
        assert loss.dtype == logs["nll_loss"].dtype == torch.float32
        loss.backward()
        losses[dtype] = float(loss.detach())
        grads[dtype] = torch.cat(
            [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        )
        assert grads[dtype].dtype == torch.float32
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=1e-2)
    error = (grads["bfloat16"] - grads["float32"]).norm() / grads["float32"].norm()
    assert float(error) < 3e-2
