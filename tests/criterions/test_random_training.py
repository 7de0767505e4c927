"""A thousand updates on random data, some of it degenerate, in every kind of configuration."""

import math
import random
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import pytest
import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.nan_detector import NanDetector
from helpers import models as make
from torch import Tensor, nn

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.models.config import GMLMTransformerConfig
from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig
from fairseq_gmlm.tasks.language_modeling_gmlm import (
    LanguageModelingGMLMConfig,
    LanguageModelingGMLMTask,
)

UPDATES = 1000
WORDS = 16  # with the special symbols and the mask a vocabulary of 21
LONGEST = 8
TINY = {
    "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8, "encoder_layers": 1,
    "encoder_attention_heads": 2,
}  # fmt: skip
TRANSLATOR = {
    **TINY, "decoder_embed_dim": 8, "decoder_ffn_embed_dim": 8, "decoder_layers": 1,
    "decoder_attention_heads": 2, "max_source_positions": LONGEST,
    "max_target_positions": LONGEST, "dropout": 0.1,
}  # fmt: skip


class Kind(NamedTuple):
    """Options of task, criterion and model; ``lm`` trains a language model."""

    task: Dict[str, Any] = {}
    loss: Dict[str, Any] = {}
    model: Dict[str, Any] = {}
    lm: bool = False


FIXED = {"mask_prior": "fixed", "mask_ratio": 0.3}
EVERYTHING = {"mask_prior": "fixed", "mask_ratio": 1.0}
OFTEN_NOTHING = {"mask_prior": "fixed", "mask_ratio": 0.1, "mask_count": "iid"}
ONE = {"mask_prior": "number", "mask_number": 1}
BF16 = {"train_dtype": "bfloat16"}
TWO = {"num_train_stages": 2}

# Pairs of options that touch the same numbers meet at least once: prior and normalisation,
# replacement and weights, stages and losses, and each of them with autocast.
KINDS: Dict[str, Kind] = {
    "plain": Kind(),
    "all masked, two stages, smoothed": Kind(
        EVERYTHING, {**TWO, "label_smoothing": 0.1, "length_label_smoothing": 0.1},
        {"share_decoder_input_output_embed": True, "length_predictor": "relative"},
    ),
    "nothing masked often, per sentence, z-loss": Kind(
        OFTEN_NOTHING, {"loss_normalization": "per-sentence", "z_loss": 1e-2},
        {"length_predictor": "pooled", "encoder_normalize_before": True,
         "decoder_normalize_before": True},
    ),
    "nothing masked often, tokens, no length": Kind(
        OFTEN_NOTHING, {"length_loss_weight": 0.0, "label_smoothing": 0.2},
    ),
    "kept and random, noised, sentences, bfloat16": Kind(
        {**FIXED, **BF16, "keep_prob": 0.3, "random_prob": 0.3},
        {"loss_weights": "noised", "loss_normalization": "sentences", "label_smoothing": 0.1},
    ),
    "random only, all, two stages, z-loss, bfloat16": Kind(
        {**BF16, "random_prob": 1.0}, {**TWO, "loss_weights": "all", "z_loss": 1e-3},
        {"length_predictor": "token", "layernorm_embedding": True},
    ),
    "drawn replacement, noised, per sentence, two stages": Kind(
        {"keep_prob": -1.0, "random_prob": -1.0},
        {**TWO, "loss_weights": "noised", "loss_normalization": "per-sentence"},
        {"length_predictor": "affine"},
    ),
    "number, mask range, fertility": Kind(
        {**ONE, "mask_range": LONGEST}, {"label_smoothing": 0.1, "z_loss": 1e-2},
        {"length_predictor": "fertility", "positional_attention": True},
    ),
    "learned rejecter, remasked stages, T5": Kind(
        {"rejecter": "learned", "random_prob": 0.2},
        {**TWO, "stage_remasking": "logits-sum", "loss_weights": "all"},
        {"learned_rejecter": True, "norm_type": "rms", "no_bias": True, "gated_ffn": True,
         "relative_positions": True, "no_scale_attention": True},
    ),
    "learned rejecter, per sentence, spans, bfloat16": Kind(
        {**FIXED, **BF16, "mask_rule": "spans"},
        {**TWO, "loss_normalization": "per-sentence", "label_smoothing": 0.3, "z_loss": 1e-2},
        {"learned_rejecter": True, "length_predictor": "pooled"},
    ),
    "language model, learned positions, per sentence": Kind(
        {}, {"loss_normalization": "per-sentence"}, {"positions": "learned"}, lm=True,
    ),
    "language model, relative, iid, two stages, bfloat16": Kind(
        {**OFTEN_NOTHING, **BF16}, {**TWO, "label_smoothing": 0.1}, {"positions": "relative"},
        lm=True,
    ),
    "language model, buckets, BERT's rule, z-loss": Kind(
        {**FIXED, "keep_prob": 0.1, "random_prob": 0.1},
        {"loss_weights": "noised", "loss_normalization": "sentences", "z_loss": 1e-2},
        {"positions": "buckets", "encoder_normalize_before": True}, lm=True,
    ),
    "language model, sinusoidal, all masked, two stages": Kind(
        EVERYTHING, {**TWO, "loss_weights": "all"},
        {"positions": "sinusoidal", "no_layernorm_embedding": True}, lm=True,
    ),
}  # fmt: skip


def build(kind: Kind) -> Tuple[Any, Any, GMLMLoss]:
    """Task, model and criterion."""
    torch.manual_seed(1)
    if kind.lm:
        cfg = LanguageModelingGMLMConfig(data="nowhere", tokens_per_sample=LONGEST, **kind.task)
        task: Any = LanguageModelingGMLMTask(cfg, make.dictionary(WORDS))
        options = {**TINY, "max_positions": LONGEST, **kind.model}
        model: Any = GMLMLanguageModel.build_model(GMLMLanguageModelConfig(**options), task)
    else:
        task = make.task(
            WORDS, max_source_positions=LONGEST, max_target_positions=LONGEST, **kind.task
        )
        model = GMLMTransformerModel.build_model(
            GMLMTransformerConfig(**{**TRANSLATOR, **kind.model}), task
        )
    return task, model, GMLMLoss(GMLMLossConfig(**kind.loss), task)


def tensor(rows: Sequence[Sequence[int]], left: bool = False) -> Tensor:
    """Rows as one tensor."""
    return collate_tokens([torch.tensor(row) for row in rows], 1, left_pad=left)


def random_batch(rng: random.Random, number: int) -> Dict[str, Any]:
    """Four pairs of up to six words; every fourth batch is degenerate."""
    edge = rng.randrange(20)

    def words(least: int) -> List[int]:
        if edge == 0:  # all tokens equal
            return [7] * 5
        if edge == 1:  # sentences of a word
            return [rng.randrange(4, 4 + WORDS)]
        if edge == 2:  # unknown words
            return [3] * rng.randint(1, 5)
        if edge == 3:  # empty sentences, which leave nothing to mask
            return []
        if edge == 4:  # one long sentence among empty ones
            return rng.choices(range(4, 4 + WORDS), k=6) if rng.random() < 0.3 else []
        return rng.choices(range(4, 4 + WORDS), k=rng.randint(least, 6))

    source = tensor([[*words(1), 2] for _ in range(4)], left=rng.random() < 0.5)
    target = tensor([[0, *words(0), 2] for _ in range(4)])
    return {
        "id": torch.arange(4 * number, 4 * number + 4),
        "ntokens": int(target.ne(1).sum()),
        "nsentences": 4,
        "net_input": {"src_tokens": source, "src_lengths": source.ne(1).sum(1)},
        "target": target,
    }


def batches(count: int) -> List[Dict[str, Any]]:
    """The same for all kinds."""
    rng = random.Random(3)
    return [random_batch(rng, number) for number in range(count)]


def flatten(model: nn.Module) -> nn.Parameter:
    """All parameters, and all gradients, as parts of one tensor: one step for all of them."""
    parameters = list(model.parameters())
    flat = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
    flat.grad = torch.zeros_like(flat)
    at = 0
    for parameter in parameters:
        part = slice(at, at + parameter.numel())
        parameter.data = flat.data[part].view_as(parameter)
        parameter.grad = flat.grad[part].view_as(parameter)
        at = part.stop
    return flat


@pytest.fixture(scope="module")
def data() -> List[Dict[str, Any]]:
    """Batches for all kinds, made once."""
    return batches(UPDATES)


@pytest.mark.parametrize("name", KINDS)
def test_a_thousand_updates_stay_finite(name: str, data: List[Dict[str, Any]]) -> None:
    """Adam at a rate at which the model keeps jumping; gradients divided as fairseq does."""
    task, model, criterion = build(KINDS[name])
    flat = flatten(model)
    adam = torch.optim.Adam([flat], lr=0.01, betas=(0.9, 0.98), foreach=False)
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    losses, empty = [], 0
    for update, sample in enumerate(data):
        flat.grad.zero_()
        loss, size, logs = task.train_step(dict(sample), model, criterion, optimizer, update)
        scale = float(size) or 1.0
        flat.grad.div_(scale)
        adam.step()
        assert math.isfinite(float(sum(logs.values()))), logs
        losses.append(float(loss.detach()) / scale)
        empty += not float(size)
    assert [number for number, value in enumerate(losses) if not math.isfinite(value)] == []
    assert [n for n, p in model.named_parameters() if not bool(p.isfinite().all())] == []
    # It has been training, though words drawn alike leave little to learn.
    assert sum(losses[-100:]) < sum(losses[:100])
    assert empty > 0 or criterion.cfg.loss_normalization != "tokens"


@pytest.mark.parametrize("name", KINDS)
def test_fairseqs_search_for_the_layer_runs(name: str, data: List[Dict[str, Any]]) -> None:
    """Before its FloatingPointError fairseq repeats the update with hooks in every module."""
    task, model, criterion = build(KINDS[name])
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    with NanDetector(model):
        for update, sample in enumerate(data[:20]):
            model.zero_grad()
            task.train_step(dict(sample), model, criterion, optimizer, update)
            # DistributedDataParallel wants a gradient for every parameter, also from empty batches.
            assert [name for name, p in model.named_parameters() if p.grad is None] == []
