"""The generator against the slow reference: token for token, score to 1e-5."""

import itertools
from typing import Any, Dict, List, Tuple

import padir_support as support
import pytest
import torch
from refine_reference import Reference

STARTS = ("random", "mask", "mask-range")
REJECTERS: Tuple[Tuple[str, Dict[str, Any]], ...] = (
    ("passthrough", {}),
    ("stutter", {}),
    ("linear-schedule", {}),
    ("constant", {"bottom_k": 2}),
    ("constant", {"bottom_percent": 30.0}),
    ("learned", {}),
)
REMASKINGS = ("initial", "previous", "logits-sum")
ROWS = [[4, 5, 6], [7, 8, 9, 9, 5, 4, 6], [8], [9, 4, 9, 4, 9]]


@pytest.fixture(scope="module")
def models() -> List[Any]:
    """Two random models over six words, so that repeats are frequent."""
    task = support.task(words=6, mask_range=14)
    return [support.model(task, seed=seed, learned_rejecter=True) for seed in (3, 5)]


def compare(model: Any, passes: int, beam: Dict[str, int], **options: Any) -> List[Dict[str, Any]]:
    """Decode with both; what the reference says, after the comparison."""
    generator = support.generator(
        [model],
        decode_strategy="refine",
        decode_start=options["start"],
        iter_decode_max_iter=passes - 1,
        iter_decode_with_beam=beam.get("lengths", 1),
        length_offset_beam=beam.get("offsets", 1),
        iter_decode_force_max_iter=not options.get("early_stop", True),
        **{k: v for k, v in options.items() if k not in ("start", "early_stop")},
    )
    reference = Reference(model, passes=passes, **beam, **options)
    expected = [reference.translate(row) for row in ROWS]
    for (found,), want in zip(generator.generate([model], support.sample(ROWS)), expected):
        assert found["tokens"].tolist() == [0, *want["tokens"], 2]
        torch.testing.assert_close(float(found["score"]), want["score"], atol=1e-5, rtol=0)
        torch.testing.assert_close(
            found["positional_scores"][1:-1], torch.tensor(want["scores"]), atol=1e-5, rtol=0
        )
        assert found["passes"] == want["passes"]
    return expected


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("rejecter,more", REJECTERS)
def test_every_combination(
    models: List[Any], start: str, rejecter: str, more: Dict[str, Any]
) -> None:
    rejections = 0
    for remasking, stutter in itertools.product(REMASKINGS, (False, True)):
        chains = compare(
            models[0],
            4,
            {},
            start=start,
            rejecter=rejecter,
            remasking=remasking,
            remask_stutter=stutter,
            **more,
        )
        rejections += sum(chain["rejections"] for chain in chains)
    assert rejections > 0


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("passes,early_stop", [(1, True), (2, True), (6, False)])
def test_passes_and_forced_passes(
    models: List[Any], start: str, passes: int, early_stop: bool
) -> None:
    dropped = 0
    for remasking in REMASKINGS:
        chains = compare(
            models[1],
            passes,
            {},
            start=start,
            rejecter="linear-schedule",
            remasking=remasking,
            remask_stutter=True,
            early_stop=early_stop,
        )
        dropped += sum(chain["dropped"] for chain in chains)
    if start == "mask" and passes == 1:
        assert dropped > 0


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("remasking", REMASKINGS)
def test_length_candidates(models: List[Any], start: str, remasking: str) -> None:
    compare(
        models[1],
        3,
        {"lengths": 2, "offsets": 3},
        start=start,
        rejecter="stutter",
        remasking=remasking,
        remask_stutter=True,
    )


def outputs(model: Any, **options: Any) -> List[List[int]]:
    """Tokens of the best hypotheses of six passes, for more sources than above."""
    values: Dict[str, Any] = {
        "decode_strategy": "refine",
        "decode_start": "random",
        "rejecter": "linear-schedule",
        "remasking": "previous",
        "iter_decode_max_iter": 5,
        "iter_decode_force_max_iter": True,
    }
    values.update(options)
    rows = [*ROWS, [5], [6, 6], [7, 4], [9, 8, 7, 6, 5, 4, 9, 8]]
    found = support.generator([model], **values).generate([model], support.sample(rows))
    return [hypothesis[0]["tokens"].tolist() for hypothesis in found]


@pytest.mark.parametrize(
    "changed",
    [
        {"decode_start": "mask"},
        {"decode_start": "mask-range"},
        {"rejecter": "passthrough"},
        {"rejecter": "stutter"},
        {"rejecter": "constant", "bottom_k": 1},
        {"rejecter": "constant", "bottom_percent": 80.0},
        {"rejecter": "learned"},
        {"remasking": "initial"},
        {"remasking": "logits-sum"},
        {"remask_stutter": True},
        {"decode_seed": 2},
        {"iter_decode_max_iter": 0},
        {"length_offset_beam": 5},
        {"parallel_decodes": 5, "iter_decode_max_iter": 0},
    ],
    ids=str,
)
def test_every_option_can_change_the_result(models: List[Any], changed: Dict[str, Any]) -> None:
    plain = {k: v for k, v in changed.items() if k == "iter_decode_max_iter" and len(changed) > 1}
    task = support.task(words=6, mask_range=14)
    more = [support.model(task, seed=seed, learned_rejecter=True) for seed in range(8, 14)]
    assert any(outputs(m, **changed) != outputs(m, **plain) for m in [*models, *more])


def test_a_sentence_decodes_the_same_alone_and_in_a_batch(models: List[Any]) -> None:
    for remasking in REMASKINGS:
        options: Dict[str, Any] = {
            "decode_strategy": "refine",
            "decode_start": "random",
            "rejecter": "constant",
            "bottom_k": 2,
            "remasking": remasking,
            "remask_stutter": True,
            "iter_decode_max_iter": 3,
            "length_offset_beam": 3,
        }
        generator = support.generator(models[:1], **options)
        together = generator.generate(models, support.sample(ROWS))
        for row, (expected,) in zip(ROWS, together):
            ((alone,),) = generator.generate(models, support.sample([row]))
            assert alone["tokens"].tolist() == expected["tokens"].tolist()
            assert alone["passes"] == expected["passes"]
            torch.testing.assert_close(alone["score"], expected["score"], atol=1e-5, rtol=0)


def test_a_random_start_holds_words_only() -> None:
    """Quirk 6: never a special symbol, a mask, or a row that only rounds the size up."""
    task = support.task(words=3, mask_range=14)
    model = support.model(task, seed=8)
    seen = set()
    for seed in range(40):
        generator = support.generator(
            [model], decode_strategy="refine", decode_start="random", decode_seed=seed
        )
        generator.before_pass = lambda state, step: (
            seen.update(state.initial[state.free].tolist()) or state
        )
        generator.generate([model], support.sample(ROWS))
    assert seen == {4, 5, 6}
