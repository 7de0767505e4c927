"""Gradients of the loss options that leave out parts of the graph, against finite differences.

``test_gmlm_loss.py`` checks the others; here are the learned rejecter, which learns on detached states,
remasking between stages, every length predictor, what is frozen, and the language model.
"""

from typing import Any, Callable, Dict, Optional, Set, Tuple

import pytest
import torch
from helpers import models as make
from torch import Tensor, nn

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig
from fairseq_gmlm.tasks.language_modeling_gmlm import (
    LanguageModelingGMLMConfig,
    LanguageModelingGMLMTask,
)

Loss = Callable[[], Tensor]
STEP = 1e-6


def batch(owner: Any) -> Dict[str, Any]:
    """Three sentences, corrupted as in training."""
    sample = make.sample(make.sources((3, 6, 2)), make.targets((4, 5, 1)))
    sample["corruption"] = owner.corrupt(sample, 1, 3)
    return sample


def translator(
    loss: Dict[str, Any], model: Dict[str, Any], task: Dict[str, Any]
) -> Tuple[nn.Module, GMLMLoss, Dict[str, Any]]:
    """A model in float64, a criterion and a batch."""
    owner = make.task(**{"keep_prob": 0.2, "random_prob": 0.2, **task})
    built = make.model(owner, seed=1, **model).double()
    return built, GMLMLoss(GMLMLossConfig(**loss), owner), batch(owner)


def slope(loss: Loss, parameter: Tensor, direction: Tensor) -> float:
    """Central difference along a direction."""
    value, ends = parameter.data.clone(), []
    with torch.no_grad():
        for sign in (1, -1):
            parameter.data = value + sign * STEP * direction
            ends.append(float(loss()))
    parameter.data = value
    return (ends[0] - ends[1]) / (2 * STEP)


def compare(model: nn.Module, loss: Loss, only: Optional[Set[str]] = None) -> None:
    """Each parameter's gradient along a random direction is the slope there.

    Args:
        model: in float64.
        loss: of it.
        only: names, or None for all; a parameter of these that has no gradient has slope 0.
    """
    model.zero_grad()
    loss().backward()
    rng = torch.Generator().manual_seed(0)
    checked = 0
    for name, parameter in model.named_parameters():
        if only is not None and name not in only:
            continue
        direction = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        found = float((grad * direction).sum())
        assert found == pytest.approx(slope(loss, parameter, direction), rel=1e-4, abs=1e-5), name
        checked += 1
    assert checked


REJECTER = {"rejecter.weight", "rejecter.bias"}


@pytest.mark.parametrize("normalization", ["tokens", "sentences", "per-sentence"])
@pytest.mark.parametrize("stages", [1, 2])
def test_the_learned_rejecter(stages: int, normalization: str) -> None:
    """Its own parameters get the loss's slope; all others that of the loss without it."""
    options = {"num_train_stages": stages, "loss_normalization": normalization}
    for weight, only in ((0.7, REJECTER), (0.0, None)):
        model, criterion, sample = translator(
            {**options, "rejecter_loss_weight": weight}, {"learned_rejecter": True}, {}
        )
        compare(model, lambda: criterion(model, sample)[0], only)  # noqa: B023
    without = {n: p.grad for n, p in model.named_parameters() if n not in REJECTER}
    model, criterion, sample = translator(options, {"learned_rejecter": True}, {})
    criterion(model, sample)[0].backward()
    for name, grad in without.items():
        torch.testing.assert_close(dict(model.named_parameters())[name].grad, grad, msg=name)


@pytest.mark.parametrize("replacement", ["initial", "previous", "logits-sum"])
def test_remasking_between_stages(replacement: str) -> None:
    """What is taken back is constant almost everywhere, as the argmax is."""
    model, criterion, sample = translator(
        {"num_train_stages": 3, "stage_remasking": replacement, "label_smoothing": 0.1}, {},
        {"rejecter": "linear-schedule"},
    )  # fmt: skip
    compare(model, lambda: criterion(model, sample)[0])


STYLES: Dict[str, Dict[str, Any]] = {
    "T5": {
        "norm_type": "rms", "no_bias": True, "relative_positions": True, "gated_ffn": True,
        "no_scale_attention": True, "share_all_embeddings": False,
        "share_decoder_input_output_embed": True, "scale_tied_logits": True,
    },
    "positional attention": {"positional_attention": True, "layernorm_embedding": True},
    "learned positions, pre-norm": {
        "encoder_learned_pos": True, "decoder_learned_pos": True,
        "encoder_normalize_before": True, "decoder_normalize_before": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_styles_of_layers(style: str, training: bool) -> None:
    """With all terms of the loss, on the paths of training and of evaluation."""
    model, criterion, sample = translator(
        {"num_train_stages": 2, "label_smoothing": 0.1, "z_loss": 0.01}, STYLES[style], {}
    )
    model.train(training)
    compare(model, lambda: criterion(model, sample)[0])


PREDICTORS = ("pooled", "relative", "token", "affine", "fertility")


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_length_losses(predictor: str) -> None:
    model, criterion, sample = translator(
        {"length_label_smoothing": 0.1, "length_loss_weight": 0.3},
        {"length_predictor": predictor, "length_detach": predictor == "fertility"},
        {},
    )
    of_length = {n for n, _ in model.named_parameters() if n.startswith("length_predictor")}
    assert of_length
    if predictor != "fertility":
        compare(model, lambda: criterion(model, sample)[0])
        return
    # It learns on detached states, so its own parameters alone have the whole slope.
    compare(model, lambda: criterion(model, sample)[0], of_length)
    model, criterion, sample = translator(
        {"length_loss_weight": 0.0}, {"length_predictor": predictor}, {}
    )
    compare(model, lambda: criterion(model, sample)[0])


FROZEN = {
    "freeze_length": ("length_predictor",),
    "freeze_rejecter": ("rejecter",),
}


@pytest.mark.parametrize("option", FROZEN)
def test_a_frozen_head_leaves_the_other_gradients_as_they_are(option: str) -> None:
    grads = []
    for frozen in (False, True):
        weight = f"{option.split('_')[1]}_loss_weight"
        model, criterion, sample = translator(
            {weight: 1.0 if frozen else 0.0}, {"learned_rejecter": True, option: frozen}, {}
        )
        criterion(model, sample)[0].backward()
        grads.append({n: p.grad for n, p in model.named_parameters()})
    for name, grad in grads[0].items():
        other = grads[1][name]
        if name.startswith(FROZEN[option]):
            assert other is None or not other.any(), name
        else:
            torch.testing.assert_close(other, grad, msg=name)


LM_LOSSES: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "smoothed, z-loss": {"label_smoothing": 0.1, "z_loss": 0.01},
    "per sentence": {"loss_normalization": "per-sentence"},
    "sentences, noised": {"loss_normalization": "sentences", "loss_weights": "noised"},
    "two stages, all": {"num_train_stages": 2, "loss_weights": "all"},
}


@pytest.mark.parametrize("positions", ["learned", "relative", "buckets", "sinusoidal"])
@pytest.mark.parametrize("kind", LM_LOSSES)
def test_the_language_model(kind: str, positions: str) -> None:
    cfg = LanguageModelingGMLMConfig(
        data="nowhere", tokens_per_sample=10, keep_prob=0.2, random_prob=0.2
    )
    owner = LanguageModelingGMLMTask(cfg, make.dictionary(12))
    torch.manual_seed(1)
    options = GMLMLanguageModelConfig(
        encoder_embed_dim=8, encoder_ffn_embed_dim=12, encoder_layers=1, encoder_attention_heads=2,
        max_positions=10, positions=positions,
    )  # fmt: skip
    model = GMLMLanguageModel.build_model(options, owner).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    sample = batch(owner)
    sample["target"].clamp_(max=15)
    sample["corruption"] = owner.corrupt(sample, 1, 3)
    criterion = GMLMLoss(GMLMLossConfig(**LM_LOSSES[kind]), owner)
    compare(model, lambda: criterion(model, sample)[0])
