"""Candidates that leave early: those that stay end as they would have in full company."""

from functools import partial
from itertools import chain
from typing import Any, Dict, List, Tuple

import padir_support as support
import pytest
import torch
from helpers.chains import EOS, Scripted, start
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fairseq_gmlm.decoding.chain import ChainResult, run_chain
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.hypotheses import candidate_scores
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.pruning import Pruning
from fairseq_gmlm.decoding.state import ChainState
from fairseq_gmlm.decoding.strategies.refine import Refine

REFINE = Refine.of(DecodingOptions.of(DecodingConfig(decode_strategy="refine"), None))
ROWS = [[4, 5, 6], [7, 8, 9, 10, 5], [8, 4]]
WAYS: Dict[str, Dict[str, Any]] = {
    "mask-predict": {"iter_decode_max_iter": 3},
    "no repeats": {"iter_decode_max_iter": 3, "forbid_stutter": True, "lenpen": 2.5},
    "refine": {"decode_strategy": "refine", "decode_start": "random", "iter_decode_max_iter": 9},
    "summed logits": {
        "decode_strategy": "refine",
        "decode_start": "random",
        "rejecter": "constant",
        "bottom_k": 1,
        "remasking": "logits-sum",
        "iter_decode_max_iter": 4,
    },
}


@pytest.fixture(scope="module")
def model() -> Any:
    return support.model(support.task(), seed=2)


def moving(settles: Tensor, best: List[float]) -> Any:
    """A rule: row r changes until pass ``settles[r]``; its tokens always score ``best[r]``."""

    def rule(state: ChainState, step: int) -> Tuple[Tensor, Tensor]:
        value = 10 + torch.minimum(torch.tensor(step), settles[state.rows])
        scores = torch.tensor(best)[state.rows]
        return (x[:, None].expand(state.tokens.shape) for x in (value, scores))

    return rule


def mean(keep: int, after: int) -> Pruning:
    return Pruning(keep, after, partial(candidate_scores, length_penalty=1.0))


def test_the_best_go_on() -> None:
    model = Scripted(moving(torch.tensor([9] * 6), [-3.0, -1.0, -2.0, -1.0, -2.0, -3.0]))
    out = run_chain(model, start([1, 2, 3, 4, 2, 1]), REFINE, 4, candidates=3, pruning=mean(2, 2))
    assert model.calls == [[0, 1, 2, 3, 4, 5]] * 2 + [[1, 2, 3, 4]] * 2
    assert out.rows.tolist() == [1, 2, 3, 4]
    assert out.passes.tolist() == [4] * 4
    assert out.free.sum(1).tolist() == [2, 3, 4, 2]
    assert out.tokens[:, 1].tolist() == [13] * 4
    assert out.tokens[0].tolist()[:4] == [0, 13, 13, EOS]


def test_a_sentence_whose_best_have_settled_leaves_with_them() -> None:
    # Of sentence 0 the better candidate has settled by pass 2, of sentence 1 the worse one.
    model = Scripted(moving(torch.tensor([0, 9, 0, 9]), [-1.0, -2.0, -2.0, -1.0]))
    out = run_chain(model, start([2, 2, 2, 2]), REFINE, 5, candidates=2, pruning=mean(1, 2))
    assert model.calls == [[0, 1, 2, 3]] * 2 + [[3]] * 3
    assert out.rows.tolist() == [0, 3] and out.passes.tolist() == [2, 5]
    assert out.tokens[:, 1].tolist() == [10, 14]


@pytest.mark.parametrize("passes", [1, 3])
def test_a_chain_that_ends_before_is_pruned_at_its_end(passes: int) -> None:
    settled = Scripted(moving(torch.tensor([0, 0]), [-2.0, -1.0]))
    out = run_chain(settled, start([2, 3]), REFINE, passes, candidates=2, pruning=mean(1, 3))
    assert out.rows.tolist() == [1] and out.passes.tolist() == [min(passes, 2)]


@given(
    scores=st.lists(st.lists(st.integers(-50, 0), min_size=4, max_size=4, unique=True), min_size=1),
    keep=st.integers(1, 4),
    data=st.data(),
)
def test_rows_by_hand(scores: List[List[int]], keep: int, data: Any) -> None:
    state = start([1] * (4 * len(scores)))
    pruning = Pruning(keep, 1, lambda _: torch.tensor(scores).flatten().float())
    expected = [
        sorted(sorted(range(4 * i, 4 * i + 4), key=lambda r: -each[r % 4])[:keep])
        for i, each in enumerate(scores)
    ]
    kept = pruning.best(state, 4)
    assert kept.tolist() == list(chain(*expected))
    part = sorted(data.draw(st.sets(st.sampled_from(range(len(scores))), min_size=1)))
    rows = torch.tensor([4 * i + j for i in part for j in range(4)])
    found = rows[pruning.among(kept, rows, 4)]
    assert found.tolist() == list(chain(*(expected[i] for i in part)))


def decode(model: Any, rows: List[List[int]], **options: Any) -> List[List[Dict[str, Any]]]:
    return support.generator([model], **options).generate([model], support.sample(rows))


def early_scores(model: Any, after: int, penalty: float, **options: Any) -> Tensor:
    """Every candidate's score after so many passes, (B, K), without pruning."""
    made = support.generator([model], **options, iter_decode_force_max_iter=True)
    seen = []
    made.before_pass = lambda state, step: seen.append((state.scores, state.free)) or state
    made.generate([model], support.sample(ROWS))
    scores, free = seen[after]
    return ((scores * free).sum(1) / free.sum(1) ** penalty).view(len(ROWS), -1)


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_what_stays_ends_as_without_pruning(model: Any, way: str, after: int) -> None:
    options = {"iter_decode_with_beam": 4, "retain_iter_history": True, **WAYS[way]}
    whole = decode(model, ROWS, nbest=4, **options)
    pruned = decode(model, ROWS, nbest=2, prune_to=2, prune_after=after, **options)
    early = early_scores(model, after, options.get("lenpen", 1.0), **options)
    best = early.topk(2).indices + torch.arange(len(ROWS))[:, None] * 4
    for stay, all_of_them, found in zip(best.tolist(), whole, pruned):
        expected = [h for h in all_of_them if h["row"] in stay]
        assert [h["row"] for h in found] == [h["row"] for h in expected]
        for ours, theirs in zip(found, expected):
            assert ours["tokens"].tolist() == theirs["tokens"].tolist()
            assert ours["passes"] == theirs["passes"]
            torch.testing.assert_close(ours["positional_scores"], theirs["positional_scores"])
            drafts = [[x["tokens"].tolist() for x in h["history"]] for h in (ours, theirs)]
            assert drafts[0] == drafts[1][: len(drafts[0])]  # a whole batch may run on for others


def test_attention_is_that_of_the_row(model: Any) -> None:
    options = {"iter_decode_with_beam": 4, "iter_decode_max_iter": 3, "print_alignment": "soft"}
    whole = decode(model, ROWS, nbest=4, **options)
    for every, found in zip(whole, decode(model, ROWS, nbest=2, prune_to=2, **options)):
        for hypothesis in found:
            same = [h for h in every if h["tokens"].tolist() == hypothesis["tokens"].tolist()]
            torch.testing.assert_close(hypothesis["attention"], same[0]["attention"])


def test_a_batch_gives_what_each_sentence_gives(model: Any) -> None:
    options = {"iter_decode_max_iter": 3, "iter_decode_with_beam": 4, "prune_to": 2}
    for row, (expected,) in zip(ROWS, decode(model, ROWS, **options)):
        ((alone,),) = decode(model, [row], **options)
        assert alone["tokens"].tolist() == expected["tokens"].tolist()


def test_fewer_rows_are_decoded_and_scored_anew(model: Any) -> None:
    sizes: List[int] = []
    made = support.generator(
        [model], iter_decode_max_iter=3, iter_decode_with_beam=5, prune_to=2, rescore_passes=2
    )
    made.before_pass = lambda state, step: sizes.append(state.tokens.size(0)) or state
    rescored: List[ChainResult] = []
    collect = made._collect
    made._collect = lambda result, *rest: rescored.append(result) or collect(result, *rest)
    made.generate([model], support.sample([[4, 5, 6, 7, 8, 9], [7, 8, 9, 10, 5, 6]]))
    assert sizes == [10, 4, 4, 4]
    assert rescored[0].tokens.size(0) == 4
    assert made.counters.summary()["candidates_per_sentence"] == 5
    assert made.counters.summary()["passes_per_sentence"] == 6


def test_scoring_anew_reads_the_rows_that_stay(model: Any) -> None:
    options = {"iter_decode_with_beam": 4, "iter_decode_max_iter": 2, "rescore_passes": 2}
    whole = decode(model, ROWS, nbest=4, **options)
    for every, found in zip(whole, decode(model, ROWS, nbest=2, prune_to=2, **options)):
        scores = {tuple(h["tokens"].tolist()): float(h["score"]) for h in every}
        for hypothesis in found:
            expected = scores[tuple(hypothesis["tokens"].tolist())]
            assert float(hypothesis["score"]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("options,message", [
    ({"prune_to": -1}, "--prune-to must be between 0 and the 3 candidates of a sentence, not -1"),
    ({"prune_to": 4}, "--prune-to must be between 0 and the 3 candidates of a sentence, not 4"),
    ({"prune_to": 2, "prune_after": 0}, "--prune-after must be at least 1, not 0"),
    ({"prune_to": 2, "decode_strategy": "easy-first"}, "compares whole drafts"),
    ({"prune_to": 2, "nbest": 3}, "--nbest 3 is more than the 2 candidates; raise --prune-to"),
    ({"prune_to": 1, "iter_decode_with_external_reranker": True}, "no --prune-to 1"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(model: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        support.generator([model, model], iter_decode_with_beam=3, **options)
