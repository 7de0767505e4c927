"""Half precision in memory: large activations, and fairseq's optimizer for bfloat16."""

from typing import Any, Dict

import pytest
import torch
from fairseq import optim
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdamConfig
from helpers import models as make
from helpers.half import MODEL_DTYPES, PRODUCT_DTYPES
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.losses import cross_entropy

LARGEST = {torch.float16: 3e4, torch.bfloat16: 1e30}  # such that twice as much, a gradient, fits


@pytest.mark.parametrize("dtype", PRODUCT_DTYPES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_largest_logits_give_finite_losses(
    dtype: torch.dtype, sign: float, smoothing: float
) -> None:
    """exp(12) is beyond float16, and a sum of such logits as well: both are done in float32."""
    hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], dtype=dtype, requires_grad=True)
    rows = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.9, 0.9], [0.0, 0.0]])
    weight = (sign * LARGEST[dtype] * rows).to(dtype).requires_grad_()
    out = cross_entropy(hidden, weight, torch.tensor([0, 1, 3]), label_smoothing=smoothing)
    out.loss.backward()
    expected = torch.nn.functional.cross_entropy(
        hidden.detach().double() @ weight.detach().double().t(),
        torch.tensor([0, 1, 3]),
        label_smoothing=smoothing,
        reduction="sum",
    )
    assert float(out.loss.detach()) == pytest.approx(float(expected), rel=1e-2)
    assert out.loss.dtype == torch.float32
    assert hidden.grad.isfinite().all() and weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", PRODUCT_DTYPES)
def test_many_tokens_are_summed_in_float32(dtype: torch.dtype) -> None:
    """In 16 bits a sum of 100,000 losses of 2 would stop at 2,048, 512 or infinity."""
    hidden = torch.zeros(100_000, 2, dtype=dtype)
    out = cross_entropy(hidden, torch.zeros(8, 2, dtype=dtype), torch.zeros(100_000).long())
    assert float(out.loss) == pytest.approx(1e5 * 2.0794415, rel=1e-5)


STYLES: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "T5": {"norm_type": "rms", "no_bias": True, "relative_positions": True, "gated_ffn": True},
}
LENGTHS = ["pooled", "relative", "token", "affine", "fertility"]


def ready(model: Any, owner: Any) -> Dict[str, Any]:
    """A corrupted batch with padding on both sides."""
    sample = make.sample(make.sources((3, 6, 1)), make.targets((4, 1, 7)))
    sample["corruption"] = owner.corrupt(sample, 1, 1)
    return sample


@pytest.mark.parametrize("dtype", MODEL_DTYPES)
@pytest.mark.parametrize("style", STYLES)
def test_large_activations_in_the_model(dtype: torch.dtype, style: str) -> None:
    """Embeddings and layers whose outputs are in the hundreds and attention scores beyond."""
    owner = make.task()
    model = make.model(owner, seed=1, **STYLES[style])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and not name.startswith("length_predictor"):
                parameter.mul_(10)
    criterion = GMLMLoss(
        GMLMLossConfig(label_smoothing=0.1, num_train_stages=2, z_loss=1e-4), owner
    )
    loss, _, logs = criterion(model.to(dtype).train(), ready(model, owner))
    assert loss.isfinite() and loss.dtype == torch.float32
    assert all(torch.as_tensor(value).isfinite() for value in logs.values())
    loss.backward()
    # In float16 such gradients may be infinite themselves, which is what a loss scaler is for.
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert dtype == torch.float16 or all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("dtype", MODEL_DTYPES)
@pytest.mark.parametrize("predictor", LENGTHS)
def test_length_losses_are_taken_in_float32(dtype: torch.dtype, predictor: str) -> None:
    """A length of 300 missed by 300 is a squared error beyond float16."""
    owner = make.task(max_source_positions=320, max_target_positions=320)
    model = make.model(
        owner, length_predictor=predictor, max_source_positions=320, max_target_positions=320
    )
    sample = make.sample(make.sources((2, 300)), make.targets((300, 2)))
    sample["corruption"] = owner.corrupt(sample, 1, 1)
    _, _, logs = GMLMLoss(GMLMLossConfig(), owner)(model.to(dtype), sample)
    assert logs["length_loss"].isfinite() and logs["length_loss"].dtype == torch.float32


def test_fairseqs_bfloat16_optimizer() -> None:
    """``--bf16`` has no loss scale; its master weights are float32. (Its trainer insists on a GPU.)"""
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.common.bf16 = True
    cfg.optimizer = OmegaConf.create({**vars(FairseqAdamConfig()), "_name": "adam"})
    cfg.optimizer.lr = [0.01]
    owner = make.task()
    model = make.model(owner, seed=1).to(torch.bfloat16).train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = optim.FP16Optimizer.build_optimizer(cfg, parameters)
    criterion = GMLMLoss(GMLMLossConfig(label_smoothing=0.1), owner)
    losses = []
    for update in range(60):
        optimizer.zero_grad()
        loss, size, _ = owner.train_step(ready(model, owner), model, criterion, optimizer, update)
        optimizer.multiply_grads(1.0 / float(size))
        assert Tensor.isfinite(optimizer.clip_grad_norm(1.0))
        optimizer.step()
        losses.append(float(loss.detach()) / float(size))
    assert optimizer.scaler is None
    assert all(p.dtype == torch.float32 for p in optimizer.fp32_params)
    assert all(p.isfinite().all() for p in parameters)
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
