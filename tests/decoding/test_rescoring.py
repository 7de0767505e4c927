"""New scores for finished candidates, against one plain forward pass for each hidden token."""

from typing import Any, Dict, List

import padir_support as support
import pytest
import torch

ROWS = [[4, 5, 6], [7, 8, 9, 10, 5], [8, 4]]
WAYS: Dict[str, Dict[str, Any]] = {
    "mask-predict": {"iter_decode_max_iter": 2},
    "no repeats": {"iter_decode_max_iter": 2, "forbid_stutter": True},
    "refine from masks": {"decode_strategy": "refine", "iter_decode_max_iter": 2},
    "repeats left out": {
        "decode_strategy": "refine",
        "remasking": "initial",
        "remask_stutter": True,
        "iter_decode_max_iter": 0,
    },
}


@pytest.fixture(scope="module")
def model() -> Any:
    return support.model(support.task(), seed=2)


def decode(model: Any, rows: List[List[int]], **options: Any) -> List[List[Dict[str, Any]]]:
    return support.generator([model], **options).generate([model], support.sample(rows))


@torch.no_grad()
def by_hand(model: Any, source: List[int], words: List[int], passes: int) -> List[float]:
    """Log-probability of each word with every ``passes``-th word hidden, itself among them."""
    vocabulary = model.vocabulary
    memory = model.encode(torch.tensor([[*source, vocabulary.eos]]), None)
    found = []
    for place, word in enumerate(words):
        shown = [
            vocabulary.mask if other % passes == place % passes else kept
            for other, kept in enumerate(words)
        ]
        canvas = torch.tensor([[vocabulary.bos, *shown, vocabulary.eos]])
        logits = model.logits(model.decode(canvas, memory).states)[0, place + 1]
        logits[model.banned] = -torch.inf
        found.append(float(logits.log_softmax(-1)[word]))
    return found


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_token_scores_the_mean_of_both(model: Any, way: str, passes: int) -> None:
    options = {"iter_decode_with_beam": 3, "nbest": 3, **WAYS[way]}
    plain = decode(model, ROWS, **options)
    again = decode(model, ROWS, rescore_passes=passes, **options)
    for source, before, after in zip(ROWS, plain, again):
        own: Dict[Any, Any] = {}  # with repeats left out, several candidates may end up equal
        for h in before:
            own.setdefault(tuple(h["tokens"].tolist()), []).append(h["positional_scores"][1:-1])
        scores = [float(h["score"]) for h in after]
        assert scores == sorted(scores, reverse=True)
        assert len(after) == len(before)
        for hypothesis in after:
            words = hypothesis["tokens"].tolist()[1:-1]
            new, found = by_hand(model, source, words, passes), hypothesis["positional_scores"]
            assert any(
                torch.allclose(found[1:-1], (chain + torch.tensor(new)) / 2, atol=1e-4)
                for chain in own[tuple(hypothesis["tokens"].tolist())]
            )
            mean = float(found[1:-1].mean())
            assert float(hypothesis["score"]) == pytest.approx(mean, abs=1e-4)


def test_passes_are_counted(model: Any) -> None:
    options = {"iter_decode_max_iter": 2, "iter_decode_with_beam": 2}
    plain = support.generator([model], **options)
    again = support.generator([model], rescore_passes=2, **options)
    plain.generate([model], support.sample(ROWS))
    for (best,) in again.generate([model], support.sample(ROWS)):
        assert best["passes"] == best["steps"] + 1
    gained = again.counters.passes - plain.counters.passes
    assert gained == 2 * len(ROWS)


def test_the_choice_among_lengths_can_change(model: Any) -> None:
    options = {"iter_decode_max_iter": 1, "iter_decode_with_beam": 5}
    rows = [[4 + (i * 7 + j) % 12 for j in range(2 + i % 6)] for i in range(24)]
    plain = decode(model, rows, **options)
    again = decode(model, rows, rescore_passes=2, **options)
    assert [h[0]["tokens"].tolist() for h in plain] != [h[0]["tokens"].tolist() for h in again]


def test_a_batch_gives_what_each_sentence_gives(model: Any) -> None:
    options = {"iter_decode_max_iter": 2, "iter_decode_with_beam": 3, "rescore_passes": 2}
    for row, (expected,) in zip(ROWS, decode(model, ROWS, **options)):
        ((alone,),) = decode(model, [row], **options)
        assert alone["tokens"].tolist() == expected["tokens"].tolist()
        assert float(alone["score"]) == pytest.approx(float(expected["score"]), abs=1e-4)


@pytest.mark.parametrize("options,message", [
    ({"rescore_passes": 1}, "--rescore-passes must be 0 or at least 2, not 1"),
    ({"rescore_passes": -2}, "--rescore-passes must be 0 or at least 2, not -2"),
    (
        {
            "rescore_passes": 2,
            "iter_decode_with_beam": 3,
            "iter_decode_with_external_reranker": True,
        },
        "choose one of them",
    ),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(model: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        support.generator([model], **options)
