"""Reranking with an autoregressive model, and ensembles."""

import copy
import itertools
from typing import Any, List

import padir_support as support
import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_gmlm.decoding.candidates import averaged_lengths
from fairseq_gmlm.decoding.reranking import check_reranker, check_sizes

ROWS = [[4, 5, 6], [7, 8, 9, 10, 5], [8, 4]]
BEAM = {
    "decode_strategy": "refine",
    "decode_start": "random",
    "iter_decode_max_iter": 2,
    "iter_decode_with_beam": 3,
    "parallel_decodes": 2,
}


def teacher(own_task: Any, seed: int = 0) -> TransformerModel:
    """A random autoregressive model, built as the task builds it from a checkpoint."""
    torch.manual_seed(seed)
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.layers, side.attention_heads = 16, 32, 1, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    cfg._name = "transformer"
    with own_task._plain_dictionaries():
        return TransformerModel.build_model(cfg, own_task).eval()


@pytest.fixture(scope="module")
def task() -> Any:
    return support.task()


@pytest.fixture(scope="module")
def model(task: Any) -> Any:
    return support.model(task, seed=8)


@pytest.fixture(scope="module")
def reranker(task: Any) -> TransformerModel:
    return teacher(task)


def score_by_hand(reranker: TransformerModel, source: List[int], target: List[int]) -> float:
    """Mean log-probability of one target and its EOS, token by token."""
    src = torch.tensor([[*source, 2]])
    total = 0.0
    for place, token in enumerate([*target, 2]):
        previous = torch.tensor([[2, *target[:place]]])
        logits = reranker(src, torch.tensor([src.size(1)]), previous)[0][0, -1]
        total += float(logits.log_softmax(-1)[token])
    return total / (len(target) + 1)


def test_scores_are_the_rerankers_own(model: Any, reranker: Any) -> None:
    generator = support.generator(
        [model, reranker], iter_decode_with_external_reranker=True, nbest=6, **BEAM
    )
    found = generator.generate([model], support.sample(ROWS))
    for row, hypotheses in zip(ROWS, found):
        scores = [float(h["score"]) for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            expected = score_by_hand(reranker, row, hypothesis["tokens"].tolist()[1:-1])
            assert float(hypothesis["score"]) == pytest.approx(expected, abs=1e-5)


def test_reranking_can_change_the_choice(model: Any, reranker: Any) -> None:
    plain = support.generator([model], **BEAM).generate([model], support.sample(ROWS))
    ranked = support.generator(
        [model, reranker], iter_decode_with_external_reranker=True, **BEAM
    ).generate([model], support.sample(ROWS))
    assert [h[0]["tokens"].tolist() for h in plain] != [h[0]["tokens"].tolist() for h in ranked]


def test_dropped_positions_are_not_scored(task: Any, reranker: Any) -> None:
    model = support.model(task, seed=2)
    generator = support.generator(
        [model, reranker],
        decode_strategy="refine",
        decode_start="mask",
        remasking="initial",
        remask_stutter=True,
        iter_decode_max_iter=0,
        iter_decode_with_beam=3,
        iter_decode_with_external_reranker=True,
    )
    for row, (best,) in zip(ROWS, generator.generate([model], support.sample(ROWS))):
        words = best["tokens"].tolist()[1:-1]
        assert all(a != b for a, b in itertools.pairwise(words))
        expected = score_by_hand(reranker, row, words)
        assert float(best["score"]) == pytest.approx(expected, abs=1e-5)


def test_a_batch_gives_what_each_sentence_gives(model: Any, reranker: Any) -> None:
    generator = support.generator(
        [model, reranker], iter_decode_with_external_reranker=True, **BEAM
    )
    together = generator.generate([model], support.sample(ROWS))
    for row, (expected,) in zip(ROWS, together):
        ((alone,),) = generator.generate([model], support.sample([row]))
        assert alone["tokens"].tolist() == expected["tokens"].tolist()
        assert float(alone["score"]) == pytest.approx(float(expected["score"]), abs=1e-5)


@pytest.mark.parametrize("words,prefix", [(13, "w"), (11, "w"), (12, "v")])
def test_a_reranker_with_other_words_is_refused(model: Any, words: int, prefix: str) -> None:
    shared = support.dictionary(words, prefix)
    other = type(support.task())(support.TranslationGMLMConfig(), shared, shared)
    with pytest.raises(ValueError, match="train both on one data-bin"):
        check_reranker(teacher(other), model)


def test_weights_of_another_size_are_refused(task: Any, reranker: Any) -> None:
    other = teacher(support.task(words=13))
    with pytest.raises(ValueError, match="17 symbols, the data's has 16"):
        check_sizes(reranker, other.state_dict())
    check_sizes(reranker, reranker.state_dict())


def test_the_task_refuses_them_when_they_are_loaded(task: Any) -> None:
    cfg = TransformerConfig()
    for side in (cfg.encoder, cfg.decoder):
        side.embed_dim, side.ffn_embed_dim, side.layers, side.attention_heads = 16, 32, 1, 2
    cfg.decoder.input_dim = cfg.decoder.output_dim = 16
    cfg._name = "transformer"
    shared = support.dictionary(13)
    other_task = TranslationTask(TranslationConfig(), shared, shared)
    state = TransformerModel.build_model(cfg, other_task).state_dict()
    built = teacher(task)
    from fairseq_gmlm.compat import before_loading

    before_loading(built, check_sizes)
    with pytest.raises(ValueError, match="the last model of --path"):
        built.load_state_dict(state)
    built.load_state_dict(teacher(task, seed=1).state_dict())


def test_a_gmlm_is_no_reranker(model: Any) -> None:
    with pytest.raises(ValueError, match="must be an autoregressive model"):
        support.generator([model, model], iter_decode_with_external_reranker=True, **BEAM)


def test_one_checkpoint_is_not_enough(reranker: Any) -> None:
    with pytest.raises(ValueError, match="give at least two"):
        support.generator([reranker], iter_decode_with_external_reranker=True, **BEAM)


def test_one_candidate_is_nothing_to_rerank(model: Any, reranker: Any) -> None:
    with pytest.raises(ValueError, match="needs several candidates"):
        support.generator([model, reranker], iter_decode_with_external_reranker=True)


def test_an_autoregressive_model_alone_is_refused(reranker: Any) -> None:
    with pytest.raises(ValueError, match="is not a GMLM model"):
        support.generator([reranker])


# -- ensembles ---------------------------------------------------------------------------------


def test_twice_the_same_model_is_that_model(model: Any) -> None:
    one = support.generator([model], **BEAM).generate([model], support.sample(ROWS))
    two = support.generator([model, model], **BEAM).generate([model], support.sample(ROWS))
    for (a,), (b,) in zip(one, two):
        assert a["tokens"].tolist() == b["tokens"].tolist()
        torch.testing.assert_close(a["score"], b["score"], atol=1e-5, rtol=0)


def test_probabilities_are_averaged(task: Any, model: Any) -> None:
    other = support.model(task, seed=9)
    generator = support.generator(
        [model, other], decode_strategy="refine", decode_start="mask", iter_decode_max_iter=0
    )
    for row, (found,) in zip(ROWS, generator.generate([model], support.sample(ROWS))):
        tokens = found["tokens"]
        canvas = tokens.clone()
        canvas[1:-1] = model.vocabulary.mask
        mean = torch.zeros(len(tokens), len(task.target_dictionary))
        for member in (model, other):
            mean += member(support.sources([row]), None, canvas[None])[0].softmax(-1) / 2
        mean[:, model.banned] = 0
        mean = mean / mean.sum(-1, keepdim=True)
        assert tokens[1:-1].tolist() == mean[1:-1].argmax(-1).tolist()
        expected = mean[1:-1].max(-1).values.log()
        torch.testing.assert_close(found["positional_scores"][1:-1], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["pooled", "affine"])
def test_lengths_are_averaged(task: Any, kind: str) -> None:
    members = [support.model(task, seed=seed, length_predictor=kind) for seed in (8, 9)]
    if kind == "affine":
        with torch.no_grad():
            members[1].length_predictor.offset.add_(4.0)
    memories = [member.encode(support.sources(ROWS)) for member in members]
    found = averaged_lengths(members, memories)
    outputs = [member.lengths(memory) for member, memory in zip(members, memories)]
    if kind == "pooled":
        expected = sum(output.softmax(-1) for output in outputs) / 2
        torch.testing.assert_close(found.exp(), expected)
    else:
        torch.testing.assert_close(found, outputs[0] + 2.0)
    generator = support.generator(members, decode_strategy="mask-predict")
    lengths = [len(h[0]["tokens"]) for h in generator.generate([], support.sample(ROWS))]
    best = found[:, 2:].argmax(-1) + 2 if kind == "pooled" else found.round().long()
    assert lengths == best.clamp(3, 16).tolist()


def test_length_heads_of_different_kinds_leave_it_to_the_first(task: Any) -> None:
    members = [support.model(task, length_predictor=kind) for kind in ("affine", "pooled")]
    memories = [member.encode(support.sources(ROWS)) for member in members]
    assert averaged_lengths(members, memories) is None
    assert averaged_lengths(members[:1], memories[:1]) is None


def test_models_are_left_unchanged(task: Any, model: Any, reranker: Any) -> None:
    other = support.model(task, seed=9)
    before = [copy.deepcopy(m.state_dict()) for m in (model, other, reranker)]
    names = [set(vars(m)) for m in (model, other, reranker)]
    generator = support.generator(
        [model, other, reranker], iter_decode_with_external_reranker=True, **BEAM
    )
    alone = support.generator([model], **BEAM)
    expected = alone.generate([model], support.sample(ROWS))
    generator.generate([model], support.sample(ROWS))
    for member, state, own in zip((model, other, reranker), before, names):
        assert set(vars(member)) == own
        assert all(torch.equal(value, state[name]) for name, value in member.state_dict().items())
    again = alone.generate([model], support.sample(ROWS))
    assert [h[0]["tokens"].tolist() for h in again] == [h[0]["tokens"].tolist() for h in expected]


def test_an_ensemble_of_other_dictionaries_is_refused(model: Any) -> None:
    shared = support.dictionary(12, "v")
    other = type(support.task())(support.TranslationGMLMConfig(), shared, shared)
    with pytest.raises(ValueError, match="model 2 of --path has other dictionaries"):
        support.generator([model, support.model(other)])


def test_the_learned_rejecter_needs_a_head_in_every_member(task: Any, model: Any) -> None:
    with_head = support.model(task, seed=9, learned_rejecter=True)
    options = {"decode_strategy": "refine", "rejecter": "learned"}
    with pytest.raises(ValueError, match="--learned-rejecter"):
        support.generator([with_head, model], **options)
    pair = support.generator([with_head, with_head], **options)
    single = support.generator([with_head], **options)
    a, b = (g.generate([], support.sample(ROWS)) for g in (pair, single))
    assert [h[0]["tokens"].tolist() for h in a] == [h[0]["tokens"].tolist() for h in b]
