"""Predictions without equal neighbours, against every sentence that there is."""

import itertools
from typing import List, Optional, Tuple

import pytest
import torch
from helpers import models as make
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.distinct import distinct_neighbours, three_best, without_stutter
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.remasking import stutter
from fairseq_gmlm.decoding.state import ChainState, initial_state


def chain_of(draft: Tensor, free: Tensor) -> ChainState:
    """A state with such a draft."""
    place = torch.arange(draft.size(1)).expand_as(draft)
    return initial_state(draft, free, place, CounterRNG(1, torch.arange(draft.size(0))))


def enumerated(
    log_probs: Tensor, where: List[bool], given: List[int], free: List[bool]
) -> Optional[float]:
    """Highest sum of log-probabilities of one row without repeats; None if there is none."""
    words = range(log_probs.size(1))
    choices = [list(words) if asked else [word] for asked, word in zip(where, given)]
    best = None
    for sentence in itertools.product(*choices):
        pairs = zip(sentence, sentence[1:], free, free[1:])
        if any(a == b and one and other for a, b, one, other in pairs):
            continue
        total = sum(float(log_probs[t, w]) for t, w in enumerate(sentence) if where[t])
        best = total if best is None else max(best, total)
    return best


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(3, 4), st.data())
def test_the_best_of_all_sentences_without_repeats(
    seed: int, width: int, words: int, data: st.DataObject
) -> None:
    rng = torch.Generator().manual_seed(seed)
    # Few words and a strong common preference, so that repeats are the rule.
    logits = torch.randn(1, width, words, generator=rng) + 2 * torch.randn(words, generator=rng)
    marks = st.lists(st.booleans(), min_size=width, max_size=width)
    where = data.draw(marks)
    free = [a or b for a, b in zip(where, data.draw(marks))]
    given_words = torch.randint(words, (width,), generator=rng).tolist()
    expected = enumerated(logits[0].log_softmax(-1), where, given_words, free)
    top = logits.log_softmax(-1).topk(3)
    found, scores = distinct_neighbours(
        top.values,
        top.indices,
        torch.tensor([where]),
        torch.tensor([given_words]),
        torch.tensor([free]),
    )
    for asked, word, kept in zip(where, found[0].tolist(), given_words):
        assert asked or word == kept
    log_probs = logits.log_softmax(-1).gather(2, found[..., None]).squeeze(2)
    torch.testing.assert_close(scores, log_probs * torch.tensor([where]))
    if expected is not None:
        assert not stutter(found, torch.tensor([free])).any()
        assert float(scores.sum()) == pytest.approx(expected, abs=1e-4)


def test_the_three_best_of_some_rows() -> None:
    logits = torch.randn(30, 4, 11, generator=torch.Generator().manual_seed(1))
    before, rows = logits.clone(), torch.arange(1, 30, 2)
    values, tokens = three_best(logits, rows, logits[rows].argmax(-1))
    expected = before[rows].topk(3)
    assert torch.equal(values, expected.values) and torch.equal(tokens, expected.indices)
    assert torch.equal(logits, before)


def case(columns: Optional[List[int]]) -> Tuple[Tensor, Tensor, Tensor, Tensor, ChainState]:
    """Two rows of BOS, three words, EOS: the first stutters, the second does not."""
    probs = torch.tensor(
        [
            [[0.6, 0.3, 0.05, 0.05], [0.5, 0.15, 0.25, 0.1], [0.1, 0.1, 0.6, 0.2]],
            [[0.6, 0.3, 0.05, 0.05], [0.2, 0.5, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2]],
        ]
    )
    logits = torch.zeros(2, 5, 4)
    logits[:, 1:4] = probs.log()
    where = torch.tensor([[False, True, True, True, False]] * 2)
    free = where.clone()
    tokens, scores = logits.argmax(-1), logits.log_softmax(-1).amax(-1)
    read = logits if columns is None else logits[:, columns]
    return tokens, scores, read.flatten(0, 1), where, chain_of(torch.full((2, 5), 9), free)


@pytest.mark.parametrize("columns", [None, [1, 2, 3], [3, 1, 2]])
def test_only_rows_with_stutter_change(columns: Optional[List[int]]) -> None:
    tokens, scores, logits, where, state = case(columns)
    index = None if columns is None else torch.tensor([columns] * 2)
    found, values = without_stutter(tokens, scores, logits, state, where, index)
    # 0 0 2 would repeat; 1 0 2 has .3 * .5 * .6, 0 1 2 only .6 * .15 * .6.
    assert found[0, 1:4].tolist() == [1, 0, 2]
    torch.testing.assert_close(values[0, 1:4].exp(), torch.tensor([0.3, 0.5, 0.6]))
    assert torch.equal(found[1], tokens[1]) and torch.equal(values[1], scores[1])


def test_what_stands_already_is_a_neighbour_too() -> None:
    tokens, scores, logits, where, state = case(None)
    where[:, 1] = False
    state.draft[:, 1] = 0  # given in both rows
    found, _ = without_stutter(tokens, scores, logits, state, where, None)
    # The best second word repeats the given 0; 2 would be next, but then 2 is lost for the third.
    assert found[0, 2:4].tolist() == [1, 2]


def options(**values: object) -> DecodingOptions:
    """Decoding options."""
    return DecodingOptions.of(DecodingConfig(), type("Arguments", (), values)())


@pytest.mark.parametrize("strategy", ["mask-predict", "refine", "threshold", "easy-first"])
@pytest.mark.parametrize("passes", [1, 2, 4])
def test_no_output_stutters(strategy: str, passes: int) -> None:
    batch = make.sample(make.sources((3, 7, 1, 5), seed=2))
    seen = 0
    for seed in range(3):
        model = make.model(seed=seed)
        for forbid in (False, True):
            chosen = options(
                decode_strategy=strategy,
                iter_decode_max_iter=passes - 1,
                iter_decode_with_beam=3,
                nbest=3,
                forbid_stutter=forbid,
            )
            for found in GMLMGenerator([model], chosen).generate([model], batch):
                for hypothesis in found:
                    words = hypothesis["tokens"].tolist()
                    repeats = sum(a == b for a, b in itertools.pairwise(words))
                    assert not forbid or repeats == 0
                    seen += repeats
    assert seen  # without the option these models do stutter


def test_sampling_is_refused() -> None:
    with pytest.raises(ValueError, match="--forbid-stutter chooses the best tokens"):
        options(forbid_stutter=True, sampling=True)
    model = make.model()
    generator = GMLMGenerator([model], options(forbid_stutter=True))
    with pytest.raises(ValueError, match="temperature cannot be combined"):
        generator.generate(
            [model], make.sample(make.sources((3,))), temperature=torch.tensor([1.0])
        )
