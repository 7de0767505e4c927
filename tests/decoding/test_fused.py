"""Decoding copies against the plain model they are made from."""

from argparse import Namespace

import pytest
import torch
from helpers import models as make
from torch import nn

from fairseq_gmlm.decoding.choice import likeliest
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.kernels import MANY_ROWS, Int8Linear, LinearFactory, can_pack
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.precision import decoding_copy

LENGTHS = (3, 5, 8)
KINDS = {
    "plain": {},
    "pre-norm, gelu": {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "activation_fn": "gelu",
    },
    "t5": {
        "norm_type": "rms",
        "relative_positions": True,
        "gated_ffn": True,
        "no_bias": True,
        "head_dim": 4,
        "no_scale_attention": True,
    },
    "positional, shared": {
        "positional_attention": True,
        "share_all_embeddings": True,
        "layernorm_embedding": True,
    },
    "length token": {"length_predictor": "token"},
}


def passes(model, rows=2):
    """States, logits, attention maps and lengths of one pass with two candidates a sentence."""
    tokens = make.pad(make.sources(LENGTHS, seed=2), left=True)
    drafts = make.pad([row for row in make.targets(LENGTHS) for _ in range(rows)])
    with torch.no_grad():
        memory = model.encode(tokens)
        decoded = model.decode(drafts, memory, True)
        maps = model.decode(drafts, memory, True, need_weights=True)
        return [
            decoded.states, model.logits(decoded.states), maps.states, maps.self_attention,
            maps.cross_attention, model.lengths(memory),
        ]  # fmt: skip


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_float32_agrees_with_the_plain_model(kind, pack) -> None:
    model = make.model(seed=4, **kind)
    copy = decoding_copy(model, LinearFactory("float32", pack))
    for found, expected in zip(passes(copy), passes(model)):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_last_layer_at_some_positions_only(kind) -> None:
    model = decoding_copy(make.model(seed=4, **kind), LinearFactory("float32"))
    drafts = make.pad(make.targets(LENGTHS))
    columns = torch.tensor([[1, 3], [5, 2], [9, 8]])
    with torch.no_grad():
        memory = model.encode(make.pad(make.sources(LENGTHS, seed=2), left=True))
        every = model.decode(drafts, memory).states
        some = model.decode(drafts, memory, columns=columns).states
    expected = torch.stack([row[place] for row, place in zip(every, columns)])
    torch.testing.assert_close(some, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("strategy", ["mask-predict", "easy-first", "refine"])
@pytest.mark.parametrize("beam", [1, 3])
def test_equal_tokens_and_scores_through_the_generator(strategy, beam) -> None:
    model = make.model(seed=5)
    options = DecodingOptions.of(
        DecodingConfig(),
        Namespace(
            iter_decode_max_iter=4, iter_decode_with_beam=beam, decode_strategy=strategy, nbest=beam
        ),
    )
    batch = make.sample(make.sources(range(2, 9), seed=2))
    plain = GMLMGenerator([model], options).generate([model], batch)
    model.prepare_for_inference_(Namespace(generation=Namespace()))
    fast = GMLMGenerator([model], options).generate([model], batch)
    for ours, theirs in zip(fast, plain):
        for one, other in zip(ours, theirs):
            assert torch.equal(one["tokens"], other["tokens"])
            assert one["passes"] == other["passes"]
            scores = one["positional_scores"], other["positional_scores"]
            torch.testing.assert_close(*scores, atol=1e-5, rtol=1e-5)


def test_hypotheses_can_be_trained_on() -> None:
    """Decoding runs in inference mode; what comes out must be ordinary tensors."""
    model = make.model(seed=5)
    options = DecodingOptions.of(DecodingConfig(), Namespace(retain_iter_history=True))
    found = GMLMGenerator([model], options).generate([model], make.sample(make.sources([4])))
    best = found[0][0]
    table = nn.Embedding(30, 2)
    for tokens in [best["tokens"], *(record["tokens"] for record in best["history"])]:
        (table(tokens).sum(-1) * 2.0).sum().backward()
    (best["positional_scores"] * nn.Parameter(torch.ones(()))).sum().backward()


def test_both_int8_packings_agree() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(64, 32)
    layer = Int8Linear(plain.weight, plain.bias)
    few = torch.randn(MANY_ROWS - 1, 64)
    few[0, :2] = torch.tensor([-5.0, 5.0])  # the range of both, so that the steps are the same
    many = torch.cat([few, few[:1]])
    torch.testing.assert_close(layer(many)[:-1], layer(few), atol=1e-4, rtol=1e-4)
    rectified = Int8Linear(plain.weight, plain.bias, relu=True)
    for x in (few, many):
        torch.testing.assert_close(rectified(x), layer(x).relu())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("pack", [True, False])
def test_linear_layers_side_by_side(dtype, pack) -> None:
    torch.manual_seed(0)
    parts = [nn.Linear(16, 8), nn.Linear(16, 24)]
    made = LinearFactory(dtype, pack)(*parts, relu=True)
    x = torch.randn(3, 5, 16)
    exact = torch.cat([part(x) for part in parts], -1).relu()
    found = made(x.to(getattr(torch, dtype)))
    assert found.dtype == getattr(torch, dtype)
    bound = 1e-6 if dtype == "float32" else 2e-2
    torch.testing.assert_close(found.float(), exact, atol=bound, rtol=bound)


def test_what_cannot_be_packed_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    can_pack.cache_clear()
    layer = nn.Linear(4, 4)
    try:
        assert LinearFactory("float32")(layer) is layer
    finally:
        can_pack.cache_clear()


def test_likeliest_tokens_and_ties() -> None:
    torch.manual_seed(0)
    logits = torch.randn(40, 1003) * 4
    logits[3, 7] = logits[3, 900] = 50.0  # the first of equals
    logits[4, :1000] = -torch.inf
    token, score = likeliest(logits)
    exact = logits.log_softmax(-1).max(-1)
    assert torch.equal(token, logits.argmax(-1)) and token[3] == 7
    torch.testing.assert_close(score, exact.values, atol=1e-6, rtol=1e-6)
