"""The model as the chain sees it: logits where they are wanted, and nothing forbidden."""

import math

import pytest
import torch
from helpers import models as make
from helpers.chains import start
from torch import Tensor

from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.conditional import ModelConditional, positions_read, spread
from fairseq_gmlm.decoding.state import ChainState

GREEDY = Choice()


def canvas(lengths=(4, 2, 6)) -> ChainState:
    """Masked canvases of the models' vocabulary."""
    return start(lengths, fill=make.task().vocabulary.mask)


def conditional(*seeds: int, choice: Choice = GREEDY, count: int = 3) -> ModelConditional:
    """One model or an ensemble over ``count`` random sources."""
    models = [make.model(seed=seed) for seed in seeds]
    source = make.pad(make.sources((3, 5, 2)[:count]), left=True)
    with torch.no_grad():
        memories = [model.encode(source) for model in models]
    return ModelConditional(models, memories, choice, models[0].banned, padded=True)


@torch.no_grad()
def log_probs(model: ModelConditional, state: ChainState, number: int = 0) -> Tensor:
    """All log-probabilities by the plain way: full logits, bans, log-softmax."""
    states = model.models[number].decode(state.tokens, model.memories[number]).states
    logits = model.models[number].logits(states)
    logits[..., model.banned] = -torch.inf
    return logits.log_softmax(-1)


@torch.no_grad()
def test_best_tokens_and_their_log_probabilities() -> None:
    state, model = canvas(), conditional(0)
    found = model(state, state.free, 0)
    scores, tokens = log_probs(model, state).max(-1)
    assert torch.equal(found.tokens[state.free], tokens[state.free])
    torch.testing.assert_close(found.scores[state.free], scores[state.free])
    assert torch.equal(found.best, found.scores)


@torch.no_grad()
def test_only_some_positions_give_the_same_there() -> None:
    state, model = canvas(), conditional(0)
    whole = model(state, state.free, 0)
    where = state.free & torch.rand(state.free.shape).lt(0.5)
    where[1] = False
    part = model(state, where, 0)
    assert torch.equal(part.tokens[where], whole.tokens[where])
    torch.testing.assert_close(part.scores[where], whole.scores[where])
    nothing = model(state, torch.zeros_like(where), 0)
    assert nothing.tokens.shape == where.shape


def test_columns_that_are_read() -> None:
    where = torch.tensor([[False, True, False, True], [False, False, True, False]])
    index = positions_read(where)
    assert index.shape == (2, 2)
    assert sorted(index[0].tolist()) == [1, 3]
    assert 2 in index[1].tolist()
    assert positions_read(torch.ones(2, 4, dtype=torch.bool)) is None
    assert positions_read(torch.zeros(2, 4, dtype=torch.bool)).shape == (2, 1)
    values = torch.tensor([10.0, 30.0, 21.0, 22.0])
    out = spread(values, torch.tensor([[1, 3], [1, 2]]), where)
    assert out.tolist() == [[0, 10, 0, 30], [0, 21, 22, 0]]


@torch.no_grad()
def test_output_matrix_is_applied_to_the_wanted_positions_only() -> None:
    state, model = canvas(), conditional(0)
    rows = []
    model.models[0].decoder.output_projection.register_forward_hook(
        lambda _, inputs, __: rows.append(inputs[0].shape[0])
    )
    one = state.free & (torch.arange(state.tokens.size(1)) == 1)
    model(state, one, 0)
    assert rows == [3]


@torch.no_grad()
@pytest.mark.parametrize("choice", [Choice(), Choice(temperature=1.0), Choice(1.0, top_k=3)])
def test_specials_can_never_win(choice: Choice) -> None:
    state, model = canvas(), conditional(0, choice=choice)
    states = model.models[0].decode(state.tokens, model.memories[0]).states[state.free]
    # Make every special the best token by far.
    weight = model.models[0].decoder.output_projection.weight
    weight[model.banned] = 50 * states.mean(0)
    for step in range(20):
        found = model(state, state.free, step).tokens[state.free]
        assert torch.isin(found, model.models[0].vocabulary.ordinary).all()


@torch.no_grad()
def test_an_ensemble_averages_probabilities() -> None:
    state, model = canvas(), conditional(0, 1, 2)
    logits = []
    for one, memory in zip(model.models, model.memories):
        logits.append(one.logits(one.decode(state.tokens, memory).states))
    mean = torch.stack([x.softmax(-1) for x in logits]).mean(0)
    mean[..., model.banned] = 0
    expected, tokens = (mean / mean.sum(-1, keepdim=True)).max(-1)
    found = model(state, state.free, 0)
    assert torch.equal(found.tokens[state.free], tokens[state.free])
    torch.testing.assert_close(found.scores[state.free], expected[state.free].log())


@torch.no_grad()
def test_an_ensemble_of_equals_is_the_model() -> None:
    state = canvas()
    one, three = conditional(4), conditional(4, 4, 4)
    torch.testing.assert_close(
        one(state, state.free, 0).scores[state.free], three(state, state.free, 0).scores[state.free]
    )


@torch.no_grad()
def test_a_part_of_the_sentences() -> None:
    state, model = canvas(), conditional(0)
    whole = model(state, state.free, 0)
    index = torch.tensor([2, 0])
    part = model.select(index)(state.select(index), state.free[index], 0)
    free = state.free[index]
    assert torch.equal(part.tokens[free], whole.tokens[index][free])
    torch.testing.assert_close(part.scores[free], whole.scores[index][free])


@torch.no_grad()
def test_samples_follow_the_models_distribution() -> None:
    model = conditional(0, choice=Choice(temperature=1.0), count=1)
    state = canvas((1,))
    probs = log_probs(model, state)[0, 1].exp()
    draws = [int(model(state, state.free, step).tokens[0, 1]) for step in range(3000)]
    counts = torch.bincount(torch.tensor(draws), minlength=probs.numel()).float()
    assert not counts[probs == 0].any()
    kept = probs > 0
    statistic = ((counts - 3000 * probs)[kept] ** 2 / (3000 * probs[kept])).sum()
    assert statistic < 44  # 19 degrees of freedom: exceeded once in a thousand


@torch.no_grad()
def test_a_samples_score_is_the_models_log_probability() -> None:
    model = conditional(0, choice=Choice(temperature=0.7, top_k=4))
    state = canvas()
    found = model(state, state.free, 0)
    expected = log_probs(model, state).gather(-1, found.tokens[..., None].clamp(min=0))
    torch.testing.assert_close(found.scores[state.free], expected.squeeze(-1)[state.free])
    best = log_probs(model, state).max(-1).values
    torch.testing.assert_close(found.best[state.free], best[state.free])
    assert not math.isinf(float(found.scores[state.free].min()))


@torch.no_grad()
def test_a_row_samples_alike_in_any_batch() -> None:
    model = conditional(0, choice=Choice(temperature=1.0))
    state = canvas()
    whole = model(state, state.free, 3)
    for row in range(3):
        index = torch.tensor([row])
        alone = model.select(index)(state.select(index), state.free[index], 3)
        free = state.free[row]
        assert torch.equal(alone.tokens[0][free], whole.tokens[row][free])
