"""Choice of tokens: temperature per run and per sentence, truncation, scores, hooks."""

import math
from typing import Any, Dict, List

import padir_support as support
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.hypotheses import candidate_scores
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig

LOGITS = torch.tensor([[1.0, 3.0, 2.0, -math.inf]]).log_softmax(-1)
PROBS = LOGITS.exp()[0].tolist()
ROWS = [[4, 5, 6], [7, 8, 9, 10, 5], [8, 4]]


@pytest.fixture(scope="module")
def model() -> Any:
    return support.model(seed=8)


def test_greedy_takes_the_best_and_its_log_probability() -> None:
    token, score, best = Choice().pick(LOGITS.clone(), torch.zeros(0))
    assert token.tolist() == [1]
    assert float(score) == float(best) == pytest.approx(math.log(PROBS[1]))


def test_sampling_inverts_the_cumulative_distribution() -> None:
    """Thresholds worked out by hand: cumulative probabilities .09, .755, 1."""
    choice = Choice(temperature=1.0)
    for uniform, expected in ((0.0, 0), (0.08, 0), (0.1, 1), (0.75, 1), (0.77, 2), (0.999, 2)):
        token, score, best = choice.pick(LOGITS.clone(), torch.tensor([uniform]))
        assert token.tolist() == [expected]
        assert float(score) == pytest.approx(math.log(PROBS[expected]), abs=1e-6)
        assert float(best) == pytest.approx(math.log(PROBS[1]), abs=1e-6)


def test_rescaled_scores_belong_to_the_sampled_distribution() -> None:
    uniform = torch.tensor([0.1])
    plain = Choice(temperature=0.5).pick(LOGITS.clone(), uniform)[1]
    rescaled = Choice(temperature=0.5, rescale=True).pick(LOGITS.clone(), uniform)[1]
    squares = [p * p for p in PROBS]
    assert float(plain) == pytest.approx(math.log(PROBS[1]), abs=1e-6)
    assert float(rescaled) == pytest.approx(math.log(squares[1] / sum(squares)), abs=1e-6)


def test_top_k_and_top_p_by_hand() -> None:
    kept = Choice(temperature=1.0, top_k=2).filtered(LOGITS)
    assert kept.isinf().tolist() == [[True, False, False, True]]
    kept = Choice(temperature=1.0, top_p=0.7).filtered(LOGITS)  # .665 < .7, so the next stays
    assert kept.isinf().tolist() == [[True, False, False, True]]
    kept = Choice(temperature=1.0, top_p=0.5).filtered(LOGITS)
    assert kept.isinf().tolist() == [[True, False, True, True]]


def test_frequencies_follow_the_probabilities() -> None:
    number = 30000
    uniform = torch.rand(number, generator=torch.Generator().manual_seed(0))
    token, _, _ = Choice(temperature=1.0).pick(LOGITS.expand(number, -1).clone(), uniform)
    counts = torch.bincount(token, minlength=4).tolist()
    chi2 = sum((c - number * p) ** 2 / (number * p) for c, p in zip(counts, PROBS) if p > 0)
    assert counts[3] == 0
    assert chi2 < 13.8  # 2 degrees of freedom, p = .001


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(0, 5), st.floats(0.2, 3.0))
def test_per_sentence_temperature_equals_one_run_each(seed: int, top_k: int, warm: float) -> None:
    made = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 7, generator=made)
    uniform = torch.rand(3, generator=made)
    temperatures = [0.0, warm, 1.0]
    together = Choice(0.0, top_k).pick(logits, uniform, torch.tensor(temperatures))
    for row, temperature in enumerate(temperatures):
        part = slice(row, row + 1)
        alone = Choice(temperature, top_k).pick(logits[part], uniform[part])
        assert [float(x[row]) for x in together] == pytest.approx([float(x) for x in alone])


@pytest.mark.parametrize(
    "values,match",
    [
        ({"temperature": -1.0}, "--temperature"),
        ({"temperature": 1.0, "top_k": 2, "top_p": 0.5}, "cannot be used together"),
        ({"temperature": 1.0, "top_p": 1.5}, "--sampling-topp"),
    ],
)
def test_contradictions_are_refused(values: Dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Choice(**values)


# -- through the generator ---------------------------------------------------------------------


def tokens(hypotheses: List[List[Dict[str, Any]]]) -> List[List[int]]:
    return [h[0]["tokens"].tolist() for h in hypotheses]


def refine(model: Any, **options: Any) -> Any:
    values = {"decode_strategy": "refine", "decode_start": "random", "iter_decode_max_iter": 3}
    return support.generator([model], **{**values, **options})


def test_temperature_per_sentence_through_the_generator(model: Any) -> None:
    sampling = refine(model, sampling=True, temperature=2.0)
    warm = tokens(sampling.generate([model], support.sample(ROWS)))
    greedy_generator = refine(model)
    greedy = tokens(greedy_generator.generate([model], support.sample(ROWS)))
    assert warm != greedy
    given_temperature = torch.tensor([2.0, 0.0, 2.0])
    mixed = greedy_generator.generate([model], support.sample(ROWS), temperature=given_temperature)
    assert tokens(mixed) == [warm[0], greedy[1], warm[2]]
    alone = greedy_generator.generate([model], support.sample(ROWS[1:2]))
    assert mixed[1][0]["passes"] == alone[0][0]["passes"]


def test_temperature_of_the_wrong_shape_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="one value for each of 3 sentences"):
        refine(model).generate([model], support.sample(ROWS), temperature=torch.ones(2))


def test_samples_depend_on_the_seed_and_not_on_the_batch(model: Any) -> None:
    options = {"sampling": True, "temperature": 1.5}
    first = refine(model, **options)
    whole = tokens(first.generate([model], support.sample(ROWS)))
    parts = [tokens(first.generate([model], support.sample([row])))[0] for row in ROWS]
    assert whole == parts
    other = refine(model, decode_seed=2, **options)
    assert tokens(other.generate([model], support.sample(ROWS))) != whole


@pytest.mark.parametrize("more", [{"sampling_topk": 1}, {"sampling_topp": 1e-6}])
def test_sampling_among_one_is_greedy(model: Any, more: Dict[str, Any]) -> None:
    options = {"sampling": True, "temperature": 1.0, "iter_decode_force_max_iter": True}
    found = refine(model, **options, **more).generate([model], support.sample(ROWS))
    greedy = refine(model, iter_decode_force_max_iter=True)
    assert tokens(found) == tokens(greedy.generate([model], support.sample(ROWS)))


def test_parallel_decodes_sample_different_chains(model: Any) -> None:
    generator = refine(model, parallel_decodes=4, nbest=4, sampling=True, temperature=2.0)
    found = generator.generate([model], support.sample(ROWS))
    assert len({tuple(h["tokens"].tolist()) for h in found[1]}) > 1
    scores = [float(h["score"]) for h in found[1]]
    assert scores == sorted(scores, reverse=True)


def test_a_logit_hook_forbids_and_forces(model: Any) -> None:
    generator = refine(model)
    plain = tokens(generator.generate([model], support.sample(ROWS)))
    unwanted = max(set(plain[1][1:-1]), key=plain[1].count)
    steps = []

    def hook(logits, state, columns, step):
        assert logits.shape[:2] == columns.shape
        assert columns.shape[0] == state.tokens.shape[0]
        steps.append(step)
        logits[..., unwanted] = -math.inf
        first = columns == 1
        forced = torch.full_like(logits, -math.inf)
        forced[..., 7] = 0.0
        return torch.where(first[..., None], forced, logits)

    generator.logit_hook = hook
    for row in tokens(generator.generate([model], support.sample(ROWS))):
        assert row[1] == 7
        assert unwanted not in row[2:]
    assert steps[:2] == [0, 1]


def test_a_logit_hook_cannot_bring_back_what_is_banned(model: Any) -> None:
    generator = refine(model)

    def hook(logits, state, columns, step):
        logits[..., model.vocabulary.mask] = 1e9
        return logits

    generator.logit_hook = hook
    for row in tokens(generator.generate([model], support.sample(ROWS))):
        assert model.vocabulary.mask not in row


def test_a_hook_before_a_pass_changes_what_is_seen(model: Any) -> None:
    generator = refine(model, iter_decode_max_iter=0)
    plain = tokens(generator.generate([model], support.sample(ROWS)))
    seen = []

    def hook(state, step):
        seen.append(step)
        state.tokens = torch.where(state.free, model.vocabulary.mask, state.tokens)
        return state

    generator.before_pass = hook
    masked = refine(model, iter_decode_max_iter=0, decode_start="mask")
    changed = tokens(generator.generate([model], support.sample(ROWS)))
    assert changed == tokens(masked.generate([model], support.sample(ROWS)))
    assert changed != plain
    assert seen == [0]


def test_hooks_get_no_gradients(model: Any) -> None:
    seen = []
    generator = refine(model, iter_decode_max_iter=1)
    generator.before_pass = lambda state, step: seen.append(state.scores) or state
    generator.logit_hook = lambda logits, state, columns, step: seen.append(logits) or logits
    generator.generate([model], support.sample(ROWS))
    assert len(seen) == 4
    assert not any(each.requires_grad or each.is_inference() for each in seen)


# -- scores ------------------------------------------------------------------------------------


def test_brevity_alpha_by_hand(model: Any) -> None:
    plain = refine(model).generate([model], support.sample(ROWS))
    brief = refine(model, brevity_alpha=0.6).generate([model], support.sample(ROWS))
    for (mean,), (found,) in zip(plain, brief):
        count = len(mean["tokens"]) - 2
        total = float(mean["positional_scores"].sum())
        assert float(mean["score"]) == pytest.approx(total / count, abs=1e-5)
        assert float(found["score"]) == pytest.approx(total / ((5 + count) / 6) ** 0.6, abs=1e-5)


def test_brevity_alpha_can_change_the_choice_of_length(model: Any) -> None:
    """Alpha 0 ranks by the sum, which favours short candidates."""
    options = {"iter_decode_with_beam": 6}
    short = refine(model, brevity_alpha=0.0, **options).generate([model], support.sample(ROWS))
    mean = refine(model, **options).generate([model], support.sample(ROWS))
    assert sum(map(len, tokens(short))) < sum(map(len, tokens(mean)))


def test_an_empty_hypothesis_scores_zero() -> None:
    from fairseq_gmlm.decoding.chain import ChainResult

    free = torch.tensor([[False, True, False]])
    result = ChainResult(
        free.long(), free.float() * -2, free, free, torch.ones(1).long(), torch.zeros(1).long()
    )
    assert candidate_scores(result, 1.0).tolist() == [0.0]
    assert candidate_scores(result, 1.0, 0.6).tolist() == [0.0]


@pytest.mark.parametrize(
    "options,match",
    [
        ({"parallel_decodes": 3}, "equal results from a masked start"),
        (
            {"parallel_decodes": 3, "decode_strategy": "refine", "decode_start": "mask"},
            "--decode-start random",
        ),
        ({"attention_pass": -1}, "--attention-pass"),
        ({"nbest": 2}, "--nbest 2 is more than the 1 candidates"),
        ({"bottom_k": 2}, "--rejecter constant"),
        ({"rejecter": "constant"}, "exactly one"),
        ({"iter_decode_with_beam": 0}, "--iter-decode-with-beam"),
    ],
)
def test_options_that_contradict_each_other(options: Dict[str, Any], match: str) -> None:
    from argparse import Namespace

    with pytest.raises(ValueError, match=match):
        DecodingOptions.of(TranslationGMLMConfig(), Namespace(**options))


def test_the_product_of_candidates_is_reported(model: Any, caplog: Any) -> None:
    with caplog.at_level("INFO"):
        generator = refine(model, iter_decode_with_beam=2, length_offset_beam=3, parallel_decodes=2)
    assert "12 candidates a sentence: 2 lengths x 3 offsets x 2 parallel" in caplog.text
    generator.generate([model], support.sample(ROWS))
    assert generator.counters.summary()["candidates_per_sentence"] == 12
