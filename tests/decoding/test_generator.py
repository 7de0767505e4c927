"""The generator: one answer for a sentence, whatever is around it."""

from argparse import Namespace
from typing import Any, Dict, List

import numpy as np
import pytest
import torch
from helpers import models as make

from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel

LENGTHS = (3, 8, 1, 5, 2)


def generator(*models: GMLMTransformerModel, **options: Any) -> GMLMGenerator:
    """A generator from generation arguments; task options may be among them."""
    return GMLMGenerator(list(models), DecodingOptions.of(DecodingConfig(), Namespace(**options)))


def decode(
    model: GMLMTransformerModel, rows: List[List[int]], left: bool = True, **options: Any
) -> List[List[Dict[str, Any]]]:
    """Hypotheses of some sources."""
    built = generator(model, **options)
    return built.generate([model], make.sample(rows, left=left))


def assert_equal(found: List[Dict[str, Any]], expected: List[Dict[str, Any]]) -> None:
    """Same tokens, and scores to 1e-4."""
    assert len(found) == len(expected)
    for mine, other in zip(found, expected):
        assert mine["tokens"].tolist() == other["tokens"].tolist()
        assert float(mine["score"]) == pytest.approx(float(other["score"]), abs=1e-4)
        torch.testing.assert_close(
            mine["positional_scores"], other["positional_scores"], atol=1e-4, rtol=1e-4
        )


WAYS: Dict[str, Dict[str, Any]] = {
    "mask-predict": {"iter_decode_max_iter": 4},
    "mask-predict, cosine": {"iter_decode_max_iter": 4, "mask_schedule": "cosine"},
    "length beam": {"iter_decode_max_iter": 3, "iter_decode_with_beam": 3, "nbest": 3},
    "length offsets": {"iter_decode_max_iter": 3, "length_offset_beam": 3, "nbest": 2},
    "one pass": {"iter_decode_max_iter": 0},
    "no early stop": {"iter_decode_max_iter": 4, "iter_decode_force_max_iter": True},
    "refine from masks": {"decode_strategy": "refine", "iter_decode_max_iter": 4},
    "refine from random": {
        "decode_strategy": "refine",
        "decode_start": "random",
        "iter_decode_max_iter": 4,
        "parallel_decodes": 3,
        "nbest": 3,
    },
    "stutter": {
        "decode_strategy": "refine",
        "rejecter": "stutter",
        "remask_stutter": True,
        "remasking": "initial",
        "iter_decode_max_iter": 3,
    },
    "schedule rejecter": {
        "decode_strategy": "refine",
        "rejecter": "linear-schedule",
        "remasking": "initial",
        "iter_decode_max_iter": 3,
    },
    "sampling": {"sampling": True, "temperature": 1.0, "iter_decode_max_iter": 3},
    "top-k": {"sampling": True, "sampling_topk": 5, "iter_decode_max_iter": 3},
    "top-p": {"sampling": True, "sampling_topp": 0.8, "iter_decode_max_iter": 3},
    "parallel samples": {
        "sampling": True,
        "parallel_decodes": 3,
        "iter_decode_with_beam": 2,
        "nbest": 6,
        "iter_decode_max_iter": 2,
    },
}
MODELS: Dict[str, Dict[str, Any]] = {
    "sinusoidal": {},
    "learned, pre-norm": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
    },
    "length token": {"length_predictor": "token", "relative_positions": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MODELS)
def test_alone_in_a_batch_and_padded_on_either_side(way: str, kind: str) -> None:
    model, rows = make.model(seed=2, **MODELS[kind]), make.sources(LENGTHS, seed=4)
    together = decode(model, rows, left=True, **WAYS[way])
    right = decode(model, rows, left=False, **WAYS[way])
    other_order = decode(model, rows[::-1], **WAYS[way])[::-1]
    for i, row in enumerate(rows):
        alone = decode(model, [row], **WAYS[way])[0]
        for found in (together[i], right[i], other_order[i]):
            assert_equal(found, alone)


@pytest.mark.parametrize("way", WAYS)
def test_no_special_symbol_is_ever_output(way: str) -> None:
    model = make.model(seed=3)
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[model.banned] = weight.abs().max() * 10  # the best tokens, were they allowed
        weight[model.banned[::2]] *= -1
    for hypotheses in decode(model, make.sources(LENGTHS, seed=5), **WAYS[way]):
        for found in hypotheses:
            tokens = found["tokens"]
            assert tokens[0] == 0 and tokens[-1] == 2
            assert torch.isin(tokens[1:-1], model.vocabulary.ordinary).all()
            assert torch.isfinite(found["score"])


def test_unknown_only_where_it_is_allowed() -> None:
    model = make.model(seed=3)
    states = model.decode(
        make.pad([[0, *[model.vocabulary.mask] * 3, 2]]), model.encode(make.pad([[5, 6, 2]]))
    ).states
    with torch.no_grad():
        model.decoder.output_projection.weight[3] = 50 * states[0, 1:4].mean(0)
    rows = [[5, 6, 2]]
    allowed = decode(model, rows, allow_unk=True, iter_decode_max_iter=0)[0][0]["tokens"]
    assert allowed[1:-1].eq(3).any()
    assert not decode(model, rows, iter_decode_max_iter=0)[0][0]["tokens"].eq(3).any()


def test_hypotheses_are_sorted_and_n_best_are_the_best() -> None:
    model, rows = make.model(seed=6), make.sources(LENGTHS, seed=1)
    every = decode(model, rows, iter_decode_with_beam=5, nbest=5)
    best = decode(model, rows, iter_decode_with_beam=5, nbest=2)
    for all_of_them, two in zip(every, best):
        scores = [float(h["score"]) for h in all_of_them]
        assert scores == sorted(scores, reverse=True)
        assert len({len(h["tokens"]) for h in all_of_them}) == 5
        assert_equal(two, all_of_them[:2])


@pytest.mark.parametrize("lenpen", [0.0, 0.5, 1.0, 2.0])
def test_scores_are_sums_over_words_divided_by_length_to_the_penalty(lenpen: float) -> None:
    model = make.model(seed=6)
    for hypotheses in decode(
        model, make.sources(LENGTHS), iter_decode_with_beam=3, nbest=3, lenpen=lenpen
    ):
        for found in hypotheses:
            words = len(found["tokens"]) - 2
            positional = found["positional_scores"]
            assert positional[0] == 0 and positional[-1] == 0  # BOS and EOS are given
            assert len(positional) == words + 2
            expected = float(positional.sum()) / words**lenpen
            assert float(found["score"]) == pytest.approx(expected, abs=1e-5)


def test_the_oracle_decodes_at_the_references_length() -> None:
    model = make.model(seed=6)
    batch = make.sample(make.sources(LENGTHS), make.targets((4, 1, 7, 2, 9)))
    built = generator(model, oracle_length=True)
    found = built.generate([model], batch)
    assert [len(h[0]["tokens"]) for h in found] == [6, 3, 9, 4, 11]


def test_an_empty_source_gives_an_empty_target() -> None:
    model = make.model(seed=6)
    rows = [[2], *make.sources((3,)), [2]]
    found = decode(model, rows, iter_decode_with_beam=2)
    assert [h[0]["tokens"].tolist() for h in (found[0], found[2])] == [[0, 2]] * 2
    assert float(found[0][0]["score"]) == 0.0
    assert len(found[1][0]["tokens"]) > 2
    assert_equal(decode(model, [[2]], iter_decode_with_beam=2)[0], found[0])


def test_encoder_and_key_projections_run_once() -> None:
    model = make.model(seed=6)
    calls = {"encoder": 0, "keys": 0, "decoder": 0}

    def count(name: str):
        def hook(*_: Any) -> None:
            calls[name] += 1

        return hook

    model.encoder.register_forward_hook(count("encoder"))
    model.decoder.layers[0].encoder_attn.k_proj.register_forward_hook(count("keys"))
    model.decoder.register_forward_hook(count("decoder"))
    decode(
        model,
        make.sources(LENGTHS),
        iter_decode_max_iter=5,
        iter_decode_force_max_iter=True,
        iter_decode_with_beam=3,
    )
    assert calls == {"encoder": 1, "keys": 1, "decoder": 6}


def test_passes_are_runs_of_the_decoder() -> None:
    model, rows = make.model(seed=6), make.sources(LENGTHS)
    forced = generator(model, iter_decode_max_iter=4, iter_decode_force_max_iter=True)
    found = forced.generate([model], make.sample(rows))
    assert [(h[0]["passes"], h[0]["steps"]) for h in found] == [(5, 4)] * 5
    assert forced.counters.summary()["passes_per_sentence"] == 5.0
    assert forced.counters.summary()["sentences"] == 5
    early = generator(
        model, decode_strategy="refine", iter_decode_max_iter=60, iter_decode_with_beam=2
    )
    found = early.generate([model], make.sample(rows))
    assert early.counters.candidates == 10
    assert early.counters.passes == sum(h[0]["passes"] for h in found)
    assert min(h[0]["passes"] for h in found) < 61


def test_history_ends_with_the_hypothesis() -> None:
    model = make.model(seed=6)
    for hypotheses in decode(
        model,
        make.sources(LENGTHS),
        iter_decode_max_iter=4,
        iter_decode_with_beam=2,
        nbest=2,
        retain_iter_history=True,
    ):
        for found in hypotheses:
            assert len(found["history"]) == found["passes"]
            assert found["history"][-1]["tokens"].tolist() == found["tokens"].tolist()
            for step in found["history"]:
                assert not torch.isin(step["tokens"][1:-1], model.banned).any()


def test_samples_depend_on_the_seed() -> None:
    model, rows = make.model(seed=6), make.sources((7, 8, 9))
    options = {"sampling": True, "iter_decode_max_iter": 2}
    first, again, other = (
        [h[0]["tokens"].tolist() for h in decode(model, rows, decode_seed=seed, **options)]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_no_numpy_touches_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's own choice among length candidates fails on a GPU (fairseq#4063)."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("numpy on scores")

    for name in ("argmax", "argsort", "array", "asarray"):
        monkeypatch.setattr(np, name, refuse)
    found = decode(make.model(seed=6), make.sources((3, 4)), iter_decode_with_beam=3, nbest=2)
    assert [len(h) for h in found] == [2, 2]


def test_ensembles_of_equals_equal_one() -> None:
    model, rows = make.model(seed=6), make.sources(LENGTHS)
    twice = generator(model, make.model(seed=6), iter_decode_max_iter=3)
    found = twice.generate([], make.sample(rows))
    for mine, other in zip(found, decode(model, rows, iter_decode_max_iter=3)):
        assert_equal(mine, other)


def test_ensembles_of_other_dictionaries_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model 2 of --path has other dictionaries"):
        generator(make.model(), make.model(make.task(words=21)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iter_decode_max_iter": -1}, "--iter-decode-max-iter must be at least 0, not -1"),
        ({"iter_decode_with_beam": 0}, "--iter-decode-with-beam must be at least 1, not 0"),
        ({"nbest": 2}, "--nbest 2 is more than the 1 candidates; raise --iter-decode-with-beam"),
        ({"parallel_decodes": 2}, "--parallel-decodes 2 would give equal results"),
        ({"length_offset_beam": 2, "nbest": 1}, "--length-offset-beam must be odd"),
        ({"sampling": True, "temperature": -1}, "--temperature must be at least 0"),
        (
            {"sampling": True, "sampling_topk": 2, "sampling_topp": 0.5},
            "--sampling-topk and --sampling-topp",
        ),
        ({"decode_strategy": "magic"}, "--decode-strategy must be one of"),
        ({"mask_schedule": "square"}, "--mask-schedule must be one of"),
        (
            {"iter_decode_with_external_reranker": True},
            "external-reranker needs several candidates",
        ),
    ],
)
def test_options_that_make_no_sense_say_what_to_change(
    options: Dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decode(make.model(), make.sources((3,)), **options)


def test_what_other_generators_know_and_this_one_does_not_is_refused() -> None:
    model = make.model()
    built, batch = generator(model), make.sample(make.sources((3,)))
    with pytest.raises(ValueError, match="--prefix-size is not supported"):
        built.generate([model], batch, prefix_tokens=torch.tensor([[5]]))
    with pytest.raises(ValueError, match="--constraints is not supported"):
        built.generate([model], batch, constraints=torch.tensor([[5]]))
    with pytest.raises(ValueError, match="at least two, separated by ':'"):
        generator(model, iter_decode_with_external_reranker=True, iter_decode_with_beam=2)


def test_a_foreign_model_is_named() -> None:
    stock, _ = make.stock_cmlm()
    with pytest.raises(ValueError, match="CMLMNATransformerModel is not a GMLM model"):
        generator(stock)
