"""Compiled passes: the same tokens, few shapes, clear refusals."""

import logging
from argparse import Namespace

import pytest
import torch
from helpers import models as make

from fairseq_gmlm.decoding import compilation
from fairseq_gmlm.decoding.compilation import (
    CompiledModel,
    check_compilation,
    rounded_batch,
    rounded_length,
)
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.precision import for_decoding
from fairseq_gmlm.errors import UserError

CPU = torch.device("cpu")


def compiler_missing() -> str:
    """Why nothing can be compiled here, or an empty string."""
    try:
        check_compilation("float32", CPU, cuda_graphs=False)
    except UserError as error:
        return str(error)
    return ""


def decode(model, lengths, **options):
    """Hypotheses at the lengths of references."""
    chosen = DecodingOptions.of(
        DecodingConfig(), Namespace(iter_decode_max_iter=3, oracle_length=True, **options)
    )
    batch = make.sample(make.sources(lengths, seed=2), make.targets(lengths))
    return GMLMGenerator([model], chosen).generate([model], batch)


def finished():
    """A model as fairseq-generate prepares it."""
    model = make.model(seed=3, encoder_layers=1, decoder_layers=1)
    model.prepare_for_inference_(Namespace(generation=Namespace()))
    return model


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "compiles")
def test_same_tokens_and_one_shape_for_all_batches_of_a_bucket(caplog) -> None:
    model = finished()
    caplog.set_level(logging.INFO, compilation.logger.name)
    for lengths in ((5, 3, 4), (2, 5, 5, 3)):
        fast, plain = decode(model, lengths, decode_compile=True), decode(model, lengths)
        for one, other in zip(fast, plain):
            assert torch.equal(one[0]["tokens"], other[0]["tokens"])
            scores = one[0]["positional_scores"], other[0]["positional_scores"]
            torch.testing.assert_close(*scores, atol=1e-5, rtol=1e-5)
    compiled = for_decoding(model, "float32", compiled=True)
    assert isinstance(compiled, CompiledModel)
    # Both batches fall into the bucket of four sentences; those that finish early leave smaller ones.
    assert (4, 1, 8, 8) in compiled.shapes and len(compiled.shapes) <= 3
    messages = [m for m in caplog.messages if "compiled decoder passes" in m]
    assert len(messages) == len(compiled.shapes)


def test_padding_to_buckets_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without a compiler: the passes run as they are."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    model = finished()
    for lengths, beam in (((5, 3, 9), 1), ((2, 8, 8, 3, 4), 3)):
        more = {"length_offset_beam": beam}
        fast, plain = (
            decode(model, lengths, decode_compile=True, **more),
            decode(model, lengths, **more),
        )
        for one, other in zip(fast, plain):
            assert torch.equal(one[0]["tokens"], other[0]["tokens"])
            assert one[0]["passes"] == other[0]["passes"]
    batches = {shape[0] for shape in for_decoding(model, "float32", compiled=True).shapes}
    assert batches <= {1, 2, 4, 8}


def test_buckets() -> None:
    assert [rounded_length(n) for n in (1, 8, 9, 25)] == [8, 8, 16, 32]
    assert [rounded_batch(n) for n in (1, 2, 3, 4, 5, 64, 65)] == [1, 2, 4, 4, 8, 64, 128]


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--decode-cuda-graphs needs a GPU"):
        check_compilation("float32", CPU, cuda_graphs=True)
    with pytest.raises(UserError, match="int8 are opaque to torch's compiler"):
        decode(finished(), (3,), decode_compile=True, decode_dtype="int8")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match="CXX=no-such-compiler can be found"):
        check_compilation("float32", CPU, cuda_graphs=False)
    with pytest.raises(ValueError, match="--decode-compile copies the weights once"):
        decode(make.model(seed=3), (3,), decode_compile=True)
