"""Traces of a small model: what the model says, and nothing else."""

import json
from typing import Any

import pytest
import torch
from helpers import models as make

from fairseq_gmlm.analysis.decoder import Decoder
from fairseq_gmlm.analysis.trace_page import trace_json, trace_page
from fairseq_gmlm.analysis.trace_text import trace_text
from fairseq_gmlm.analysis.tracing import MASK, Tracer

SOURCES, TARGETS = make.sources([4, 7, 2]), make.targets([5, 6, 3])
VALUES = {"iter_decode_max_iter": 2, "iter_decode_with_beam": 3, "nbest": 3}


@pytest.fixture(scope="module")
def owner() -> Any:
    return make.task()


@pytest.fixture(scope="module")
def model(owner: Any) -> Any:
    return make.model(owner)


def tracer(
    model: Any, owner: Any, best: int = 1, layers: int = 0, heads: str = "mean", **options: Any
) -> Tracer:
    return Tracer(Decoder([model], owner, {**VALUES, **options}), best, layers, heads)


def test_passes_and_probabilities(model: Any, owner: Any) -> None:
    batch = make.sample(SOURCES, TARGETS, ids=[5, 6, 7])
    for place, trace in enumerate(tracer(model, owner, best=2)(batch)):
        assert trace.number == 5 + place
        words = [f"w{i - 4}" for i in SOURCES[place][:-1]]
        assert trace.source == [*words, "</s>"]
        assert trace.reference == " ".join(f"w{i - 4}" for i in TARGETS[place][1:-1])
        assert len(trace.chains) == 2 and [c.rank for c in trace.chains] == [1, 2]
        for chain in trace.chains:
            assert set(chain.start) == {MASK}
            # Two tokens need no third pass: none of them is masked after the second.
            assert len(chain.passes) == min(3, len(chain.start))
            assert chain.output == [cell.token for cell in chain.passes[-1].cells]
            assert chain.text == " ".join(chain.output)
            assert all(cell.predicted and cell.changed for cell in chain.passes[0].cells)
            for before, after in zip(chain.passes, chain.passes[1:]):
                assert [c.remasked for c in before.cells] == [c.predicted for c in after.cells]
            last = chain.passes[-1].cells
            mean = sum(torch.tensor(c.probability).log().item() for c in last) / len(last)
            assert mean == pytest.approx(chain.score, abs=1e-4)


def test_lengths_and_scores(model: Any, owner: Any) -> None:
    batch = make.sample(SOURCES)
    for place, trace in enumerate(tracer(model, owner)(batch)):
        assert trace.reference is None
        scores = [each.score for each in trace.lengths]
        assert scores == sorted(scores, reverse=True)
        assert [each.chosen for each in trace.lengths] == [True, False, False]
        memory = model.encode(torch.tensor([SOURCES[place]]))
        lengths, logs = model.length_predictor.candidates(model.lengths(memory), 3)
        for each in trace.lengths:
            assert each.length == max(int(lengths[0, each.candidate]) - 2, 1)
            assert each.log_probability == pytest.approx(float(logs[0, each.candidate]), abs=1e-4)
        assert len(trace.chains[0].output) == trace.lengths[0].length


def test_pruned_candidates_are_listed_without_a_score(model: Any, owner: Any) -> None:
    batch = make.sample(SOURCES)
    whole = tracer(model, owner)(batch)
    for every, found in zip(whole, tracer(model, owner, nbest=2, prune_to=2)(batch)):
        known = {each.candidate: each for each in every.lengths}
        assert [each.score is None for each in found.lengths] == [False, False, True]
        assert sorted(each.candidate for each in found.lengths) == [0, 1, 2]
        for each in found.lengths:
            assert each.length == known[each.candidate].length
            assert each.log_probability == pytest.approx(known[each.candidate].log_probability)
        assert "pruned" in trace_text(found).splitlines()[2]
        assert "<td>pruned</td>" in trace_page([found], {})


def test_attention_is_the_models_own(model: Any, owner: Any) -> None:
    trace = tracer(model, owner, layers=1, heads="max")(make.sample(SOURCES))[1]
    chain = trace.chains[0]
    memory = model.encode(torch.tensor([SOURCES[1]]))
    canvas = torch.tensor([[0, *[model.vocabulary.mask] * len(chain.start), 2]])
    with torch.no_grad():
        maps = model.decode(canvas, memory, need_weights=True)
    first = chain.passes[0]
    inner = maps.self_attention[0, -1].amax(0)[1:-1, 1:-1]
    cross = maps.cross_attention[0, -1].mean(0)[1:-1]
    torch.testing.assert_close(torch.tensor(first.inner), inner, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.tensor(first.cross), cross, atol=1e-5, rtol=1e-4)
    assert len(first.cross[0]) == len(trace.source)


def test_a_trace_is_plain_json(model: Any, owner: Any) -> None:
    traces = tracer(model, owner)(make.sample(SOURCES[:1]))
    (found,) = json.loads(json.dumps(trace_json(traces)))
    assert found["chains"][0]["passes"][0]["cells"][0]["predicted"] is True


def test_an_empty_source(model: Any, owner: Any) -> None:
    (trace,) = tracer(model, owner)(make.sample([[2]]))
    assert trace.chains[0].passes == [] and trace.chains[0].text == ""
