"""Decoding in fewer bits."""

from argparse import Namespace

import pytest
import torch
from helpers import models as make
from torch import nn

from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.kernels import Int8Linear
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.precision import check_dtype, for_decoding
from fairseq_gmlm.hardware import fast_bfloat16

# At given lengths: with random weights near ties between two would flip.
OPTIONS = {"iter_decode_max_iter": 3, "oracle_length": True}
LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9)


def finished(**options):
    """A model as fairseq-generate prepares it."""
    model = make.model(seed=3, **options)
    model.prepare_for_inference_(Namespace(generation=Namespace()))
    return model


def decode(model, **options):
    """Hypotheses of eight sentences."""
    chosen = DecodingOptions.of(DecodingConfig(), Namespace(**OPTIONS, **options))
    batch = make.sample(make.sources(LENGTHS, seed=2), make.targets(LENGTHS))
    return GMLMGenerator([model], chosen).generate([model], batch)


def test_int8_layer_against_the_arithmetic_written_out() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 32)
    x = torch.randn(5, 7, 64)
    scale = layer.weight.abs().amax(1, keepdim=True) / 127
    weight = (layer.weight / scale).round() * scale
    # Inputs get 255 steps over their whole range, which always has zero in it.
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    step = (high - low) / 255
    found = Int8Linear(layer.weight, layer.bias)(x)
    exact = nn.functional.linear(x, weight, layer.bias)
    # An input is off by at most one step (two where seven bits are used).
    bound = 2 * step * weight.abs().sum(1).max()
    assert found.shape == exact.shape and found.dtype == torch.float32
    assert (found - exact).abs().max() <= bound
    assert (found - layer(x)).abs().mean() < 0.02


def test_a_row_of_zeros_gives_the_bias() -> None:
    layer = nn.Linear(8, 2)
    nn.init.zeros_(layer.weight)
    torch.testing.assert_close(
        Int8Linear(layer.weight, layer.bias)(torch.randn(3, 8)), layer.bias.expand(3, 2)
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize(
    "kind", [{}, {"norm_type": "rms", "relative_positions": True, "gated_ffn": True}]
)
def test_copies_decode_nearly_alike_and_leave_the_model_alone(dtype, kind) -> None:
    model = finished(**kind)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    exact, rounded = decode(model), decode(model, decode_dtype=dtype)
    pairs = [
        (int(a), int(b))
        for one, other in zip(exact, rounded)
        for a, b in zip(one[0]["tokens"], other[0]["tokens"])
    ]
    # Random weights are full of near ties; 0.77 on torch 2.2.
    assert sum(a == b for a, b in pairs) / len(pairs) > 0.7
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) and value.dtype == before[name].dtype


def test_matrices_change_and_the_length_head_does_not() -> None:
    model = finished()
    same = for_decoding(model, "float32")
    assert same.encoder.embed_tokens is model.encoder.embed_tokens  # nothing copied in vain
    assert same.length_predictor is model.length_predictor
    eight = for_decoding(model, "int8")
    assert isinstance(eight.decoder.output_projection, Int8Linear)
    assert not any(isinstance(m, nn.Linear) for m in eight.encoder.modules())
    half = for_decoding(model, "bfloat16")
    assert half.decoder.layers[0].final_layer_norm.weight.dtype == torch.bfloat16
    plain = any(isinstance(m, nn.Linear) for m in half.encoder.modules())
    assert plain != fast_bfloat16("cpu")  # only CPUs with AVX-512 have kernels for them
    assert half.length_predictor.weight.dtype == torch.float32


def test_a_model_in_training_decodes_itself() -> None:
    model = make.model(seed=3)
    assert for_decoding(model, "float32") is model


def test_copies_are_kept_until_the_weights_change() -> None:
    model = finished()
    first = for_decoding(model, "float32")
    assert for_decoding(model, "float32") is first
    with torch.no_grad():
        model.decoder.layers[0].fc1.bias.add_(1.0)
    second = for_decoding(model, "float32")
    assert second is not first
    hidden = torch.ones(1, 2, 16)
    feed = model.decoder.layers[0].feed_forward(hidden)
    torch.testing.assert_close(second.decoder.layers[0].feed_forward(hidden), feed)


def test_refusals_give_the_reason() -> None:
    with pytest.raises(ValueError, match="CPUs have no fast half-precision"):
        check_dtype("float16", torch.device("cpu"))
    with pytest.raises(ValueError, match="its kernels are for CPUs, the model is on cuda"):
        check_dtype("int8", torch.device("cuda"))
    with pytest.raises(ValueError, match="must be one of float32, bfloat16"):
        check_dtype("int4", torch.device("cpu"))
    with pytest.raises(ValueError, match="for finished models"):
        decode(make.model(seed=3), decode_dtype="int8")
