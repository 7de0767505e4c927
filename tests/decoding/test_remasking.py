"""Stutter, what stands at rejected positions, and what is left out of the output."""

from typing import List, Tuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.chain import ChainResult, run_chain
from fairseq_gmlm.decoding.hypotheses import candidate_scores
from fairseq_gmlm.decoding.rejecters import passthrough, stuttering
from fairseq_gmlm.decoding.remasking import Remasking, lowest, stutter
from fairseq_gmlm.decoding.state import ChainState, Prediction, blank, initial_state
from fairseq_gmlm.decoding.strategies.refine import Refine

BOS, PAD, EOS, MASK = 0, 1, 2, 9


def test_stutter_by_hand() -> None:
    tokens = torch.tensor([[BOS, 5, 5, 5, 6, EOS], [BOS, BOS, 6, 6, EOS, EOS]])
    free = torch.tensor([[0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0]]).bool()
    expected = [[0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0]]
    assert stutter(tokens, free).int().tolist() == expected


def test_stutter_of_a_full_row_does_not_wrap() -> None:
    tokens = torch.tensor([[5, 6, 5]])
    assert not bool(stutter(tokens, torch.ones(1, 3, dtype=torch.bool)).any())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(4, 6), min_size=1, max_size=12))
def test_stutter_is_what_python_says(words: List[int]) -> None:
    found = stutter(torch.tensor([words]), torch.ones(1, len(words), dtype=torch.bool))
    expected = [i > 0 and words[i] == words[i - 1] for i in range(len(words))]
    assert found[0].tolist() == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=10), st.integers(0, 12), st.integers(0, 99))
def test_lowest_takes_exactly_that_many(free: List[bool], count: int, seed: int) -> None:
    where = torch.tensor([free])
    scores = torch.rand(1, len(free), generator=torch.Generator().manual_seed(seed))
    found = lowest(scores, where, torch.tensor([count]))
    assert int(found.sum()) == min(count, sum(free))
    assert not bool((found & ~where).any())


def test_replacements() -> None:
    initial, shown, summed = (torch.full((1, 2), value) for value in (4, 5, 6))
    for source, expected in (("initial", 4), ("previous", 5), ("logits-sum", 6)):
        made = Remasking(passthrough, source)
        assert made.replacement(initial, shown, summed).tolist() == [[expected, expected]]
        assert made.needs_logits == (source == "logits-sum")


def test_unknown_source_is_refused() -> None:
    with pytest.raises(ValueError, match="--remasking"):
        Remasking(passthrough, "last")


class Script:
    """A conditional model that says what it is told to, pass by pass; notes what it was shown."""

    def __init__(self, passes: List[List[List[int]]], logits: Tensor = None) -> None:
        self.passes, self.logits, self.shown = passes, logits, []

    def __call__(self, state: ChainState, where: Tensor, step: int) -> Prediction:
        self.shown.append(state.tokens.tolist())
        tokens = torch.tensor([[BOS, *row, EOS] for row in self.passes[step]])
        scores = torch.full(tokens.shape, -0.5)
        logits = None if self.logits is None else self.logits[step]
        return Prediction(tokens, scores, scores, logits=logits)

    def select(self, sentences: Tensor) -> "Script":
        self.passes = [[rows[i] for i in sentences.tolist()] for rows in self.passes]
        return self


def start(rows: List[List[int]]) -> ChainState:
    """A chain whose canvases hold ``rows``."""
    lengths = torch.tensor([len(row) + 2 for row in rows])
    longest = int(lengths.max())
    tokens = blank(lengths, longest, PAD, BOS, EOS, MASK)
    for number, row in enumerate(rows):
        tokens[number, 1 : len(row) + 1] = torch.tensor(row)
    column = torch.arange(longest)[None]
    free = (column > 0) & (column < lengths[:, None] - 1)
    place = (column - 1).clamp(min=0).expand_as(tokens)
    return initial_state(tokens, free, place, CounterRNG(1, torch.arange(len(rows))))


def run(rows, script: Script, strategy: Refine, **options) -> ChainResult:
    return run_chain(script, start(rows), strategy, len(script.passes), **options)


def words(result: ChainResult) -> List[List[int]]:
    """Tokens that are in the output."""
    keep = result.free & ~result.dropped
    return [t[k].tolist() for t, k in zip(result.tokens, keep)]


def test_the_deletion_effect_of_stutter_remasking() -> None:
    """From a mask start with initial remasking, repeats collapse after the last pass."""
    script = Script([[[5, 5, 6]], [[5, 5, 6]], [[7, 7, 7]]])
    strategy = Refine(Remasking(passthrough, "initial", True), "mask")
    result = run([[MASK] * 3], script, strategy, early_stop=False)
    assert script.shown[1] == [[BOS, 5, MASK, 6, EOS]]
    assert words(result) == [[7]]
    assert candidate_scores(result, 1.0).tolist() == [-0.5]


def test_a_random_start_that_is_right_is_not_dropped() -> None:
    """Quirk 5: only what was remasked can be left out."""
    strategy = Refine(Remasking(passthrough, "initial", True), "random")
    result = run([[5, 6, 7]], Script([[[5, 6, 7]]]), strategy)
    assert words(result) == [[5, 6, 7]]


def test_a_repeat_whose_start_was_another_word_is_replaced_and_dropped() -> None:
    strategy = Refine(Remasking(passthrough, "initial", True), "random")
    result = run([[5, 6, 7]], Script([[[8, 8, 7]]]), strategy)
    assert result.tokens.tolist() == [[BOS, 8, 6, 7, EOS]]
    assert words(result) == [[8, 7]]


def test_previous_remasking_shows_what_the_pass_had_read() -> None:
    script = Script([[[5, 5, 6]], [[7, 7, 6]], [[8, 4, 6]]])
    strategy = Refine(Remasking(stuttering, "previous"), "random")
    run([[4, 5, 6]], script, strategy, early_stop=False)
    assert script.shown == [[[BOS, 4, 5, 6, EOS]], [[BOS, 5, 5, 6, EOS]], [[BOS, 7, 5, 6, EOS]]]


def test_previous_remasking_after_the_last_pass_keeps_a_word_that_is_not_the_start() -> None:
    script = Script([[[5, 6, 7]], [[8, 8, 7]]])
    strategy = Refine(Remasking(passthrough, "previous", True), "mask")
    assert words(run([[MASK] * 3], script, strategy)) == [[8, 6, 7]]


def test_no_mask_is_left_whatever_is_remasked() -> None:
    for source in ("initial", "previous"):
        strategy = Refine(Remasking(stuttering, source, True), "mask")
        result = run([[MASK] * 3], Script([[[5, 5, 5]]]), strategy)
        assert words(result) == [[5]]


def _one_hot(rows: List[List[Tuple[int, float]]]) -> Tensor:
    """Logits (1, T, 10) that are 0 but for (token, value) of each column."""
    logits = torch.zeros(1, len(rows), 10)
    for column, (token, value) in enumerate(rows):
        logits[0, column, token] = value
    return logits


def test_logits_are_summed_over_passes() -> None:
    frame = (BOS, 0.0)
    logits = [
        _one_hot([frame, (5, 1.0), (5, 3.0), frame]),
        _one_hot([frame, (6, 1.5), (6, 1.0), frame]),
        _one_hot([frame, (6, 1.0), (6, 1.0), frame]),
    ]
    script = Script([[[5, 5]], [[6, 6]], [[6, 6]]], logits)
    strategy = Refine(Remasking(stuttering, "logits-sum"), "random")
    assert strategy.needs_logits
    run([[7, 8]], script, strategy, early_stop=False)
    # the second word is a repeat each time: 5 (3.0), then still 5 (3.0 against 1.0)
    assert script.shown[1:] == [[[BOS, 5, 5, EOS]], [[BOS, 6, 5, EOS]]]


def test_no_buffer_without_summed_logits() -> None:
    seen = []
    strategy = Refine(Remasking(stuttering, "previous"), "random")
    script = Script([[[5, 5]], [[6, 6]]])
    run(
        [[7, 8]],
        script,
        strategy,
        early_stop=False,
        before_pass=lambda state, step: seen.append(state.total) or state,
    )
    assert seen == [None, None]


def test_settled_rows_keep_what_they_had_while_others_run() -> None:
    """Two candidates of one sentence: the first settles at once, the second goes on."""
    script = Script([[[5, 5], [4, 5]], [[6, 6], [4, 6]], [[7, 7], [4, 6]]])
    strategy = Refine(Remasking(passthrough, "previous", True), "random")
    result = run([[5, 5], [7, 8]], script, strategy, candidates=2)
    # 5 5 is the start itself: settled after the first pass, its repeat shows its start: dropped
    assert words(result) == [[5], [4, 6]]
    assert result.passes.tolist() == [3, 3]
