"""The loop itself, on stand-ins with known answers."""

from dataclasses import replace
from typing import Tuple

import pytest
import torch
from helpers.chains import BOS, EOS, MASK, PAD, Scripted, start
from torch import Tensor

from fairseq_gmlm.decoding.chain import run_chain
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.state import ChainState, blank
from fairseq_gmlm.decoding.strategies.mask_predict import MaskPredict
from fairseq_gmlm.decoding.strategies.refine import Refine

REFINE = Refine.of(DecodingOptions.of(DecodingConfig(decode_strategy="refine"), None))


def climbing(limits: Tensor):
    """A rule: row r says 10 + step everywhere until ``limits[r]``, and nothing new after that."""

    def rule(state: ChainState, step: int) -> Tuple[Tensor, Tensor]:
        value = torch.minimum(torch.tensor(step), limits[state.rows])
        tokens = (10 + value)[:, None].expand_as(state.tokens)
        return tokens, -(1.0 + value.float())[:, None].expand(state.tokens.shape)

    return rule


def test_canvases_by_hand() -> None:
    found = blank(torch.tensor([4, 2, 5]), 5, PAD, BOS, EOS, MASK)
    assert found.tolist() == [
        [BOS, MASK, MASK, EOS, PAD],
        [BOS, EOS, PAD, PAD, PAD],
        [BOS, MASK, MASK, MASK, EOS],
    ]


def test_rows_stop_when_their_draft_stays_and_sentences_leave() -> None:
    model = Scripted(climbing(torch.tensor([0, 3, 1])))
    out = run_chain(model, start([2, 1, 3]), REFINE, passes=10)
    assert out.passes.tolist() == [2, 5, 3]
    assert model.calls == [[0, 1, 2], [0, 1, 2], [1, 2], [1], [1]]
    assert out.tokens.tolist() == [
        [BOS, 10, 10, EOS, PAD],
        [BOS, 13, EOS, PAD, PAD],
        [BOS, 11, 11, 11, EOS],
    ]
    assert out.scores.tolist() == [[0, -1, -1, 0, 0], [0, -4, 0, 0, 0], [0, -2, -2, -2, 0]]


def test_without_early_stop_every_pass_is_run() -> None:
    model = Scripted(climbing(torch.tensor([0, 3, 1])))
    out = run_chain(model, start([2, 1, 3]), REFINE, passes=6, early_stop=False)
    assert out.passes.tolist() == [6, 6, 6]
    assert model.calls == [[0, 1, 2]] * 6
    assert out.tokens[:, 1].tolist() == [10, 13, 11]


def test_a_sentence_leaves_with_its_last_candidate_and_settled_rows_are_frozen() -> None:
    # Sentence 0 has candidates that settle at once and late; the first would move again at pass 4.
    def rule(state: ChainState, step: int) -> Tuple[Tensor, Tensor]:
        early = torch.tensor(0 if step < 4 else 5)
        value = torch.where(state.rows == 0, early, torch.tensor(min(step, 6)))
        value = torch.where(state.rows >= 2, torch.tensor(0), value)
        tokens = (10 + value)[:, None].expand_as(state.tokens)
        return tokens, -(1.0 + value.float())[:, None].expand(state.tokens.shape)

    model = Scripted(rule)
    out = run_chain(model, start([2, 2, 2, 2]), REFINE, passes=12, candidates=2)
    assert model.calls == [[0, 1, 2, 3]] * 2 + [[0, 1]] * 6
    assert out.passes.tolist() == [8, 8, 2, 2]
    assert out.tokens[:, 1].tolist() == [10, 16, 10, 10]
    assert out.scores[:, 1].tolist() == [-1, -7, -1, -1]


def test_rows_that_may_not_settle_run_on() -> None:
    model = Scripted(climbing(torch.tensor([0, 0])))
    may = torch.tensor([True, False])
    out = run_chain(model, start([2, 2]), REFINE, passes=5, may_settle=may)
    assert out.passes.tolist() == [2, 5]


def test_passes_used_up() -> None:
    model = Scripted(climbing(torch.tensor([99])))
    for passes in (1, 2, 7):
        out = run_chain(model, start([2]), REFINE, passes=passes)
        assert out.passes.tolist() == [passes]
        assert out.tokens[0, 1] == 10 + passes - 1


def test_no_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one pass, not 0"):
        run_chain(Scripted(climbing(torch.tensor([0]))), start([2]), REFINE, passes=0)


def test_a_sentence_without_free_positions_is_left_alone() -> None:
    model = Scripted(climbing(torch.tensor([9, 9])))
    out = run_chain(model, start([0, 2]), REFINE, passes=3)
    assert out.tokens[0].tolist() == [BOS, EOS, PAD, PAD]
    assert out.passes.tolist() == [1, 3]
    assert not out.scores[0].any()


def scripted_confidence(state: ChainState, step: int) -> Tuple[Tensor, Tensor]:
    """Tokens 10 * (step + 1) + column; the second and fourth words are the least sure."""
    column = torch.arange(state.tokens.size(1))
    table = torch.tensor([0.0, -0.1, -0.4, -0.2, -0.3, -0.05, 0.0])
    tokens = (10 * (step + 1) + column).expand_as(state.tokens)
    return tokens, table[: column.numel()].expand(state.tokens.shape).clone()


def test_mask_predict_by_hand() -> None:
    model = Scripted(scripted_confidence)
    out = run_chain(model, start([4]), MaskPredict(), passes=2)
    # Half of four words is masked again: the least sure, which are the second and the fourth.
    assert model.shown[0].tolist() == [[BOS, MASK, MASK, MASK, MASK, EOS]]
    assert model.shown[1].tolist() == [[BOS, 11, MASK, 13, MASK, EOS]]
    assert out.tokens.tolist() == [[BOS, 11, 22, 13, 24, EOS]]
    assert out.scores[0].tolist() == pytest.approx([0, -0.1, -0.4, -0.2, -0.3, 0])


@pytest.mark.parametrize("passes", range(1, 9))
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_mask_predict_never_ends_with_a_mask(passes: int, schedule: str) -> None:
    model = Scripted(scripted_confidence)
    out = run_chain(model, start([5, 3, 1, 2]), MaskPredict(schedule), passes=passes)
    assert not out.tokens.eq(MASK).any()
    assert out.tokens[out.free].ge(10).all()
    assert model.shown[0].eq(MASK).sum().item() == 11


def test_passes_per_token_end_short_sentences_early() -> None:
    model = Scripted(scripted_confidence)
    out = run_chain(model, start([1, 2, 5]), MaskPredict(per_token=0.5), passes=4)
    assert out.passes.tolist() == [1, 1, 3]
    # Each row is as if the chain had been made for its number of passes.
    for row, (length, passes) in enumerate([(1, 1), (2, 1), (5, 3)]):
        alone = run_chain(
            Scripted(scripted_confidence), start([length]), MaskPredict(), passes=passes
        )
        assert out.tokens[row, : length + 2].tolist() == alone.tokens[0].tolist()


def test_sure_tokens_are_not_masked_again() -> None:
    # Probabilities .90 .67 .82 .74; with four passes the schedule would take back 3, 2, 1 of them.
    for keep, shown in [
        (0.7, [11, MASK, 13, 14]),
        (0.8, [11, MASK, 13, MASK]),
        (0, [11, *[MASK] * 3]),
    ]:
        model = Scripted(scripted_confidence)
        out = run_chain(model, start([4]), MaskPredict(keep_above=keep), passes=4)
        assert model.shown[1][0, 1:5].tolist() == shown
        assert out.passes.tolist() == [4] and not out.tokens.eq(MASK).any()
    sure = run_chain(
        Scripted(scripted_confidence), start([4]), MaskPredict(keep_above=0.6), passes=4
    )
    assert sure.passes.tolist() == [1]


def test_adaptive_options_out_of_range() -> None:
    with pytest.raises(ValueError, match="--passes-per-token must be at least 0, not -1"):
        MaskPredict(per_token=-1)
    with pytest.raises(ValueError, match=r"--keep-above must be a probability, not 1\.5"):
        MaskPredict(keep_above=1.5)


def test_history_keeps_every_pass() -> None:
    model = Scripted(climbing(torch.tensor([0, 2])))
    out = run_chain(model, start([1, 2]), REFINE, passes=9, keep_history=True)
    assert [record.rows.tolist() for record in out.history] == [[0, 1], [0, 1], [1], [1]]
    assert [record.draft[-1, 1].item() for record in out.history] == [10, 11, 12, 12]
    assert out.history[0].shown.tolist() == start([1, 2]).tokens.tolist()
    assert torch.equal(out.history[1].shown, out.history[0].tokens)
    assert torch.equal(out.history[0].predicted, out.free)


def test_history_of_a_frozen_row_ends_with_its_result() -> None:
    def rule(state: ChainState, step: int) -> Tuple[Tensor, Tensor]:
        late = torch.where(state.rows == 0, 0 if step < 3 else 7, min(step, 5))
        tokens = (10 + late)[:, None].expand_as(state.tokens)
        return tokens, torch.full(tokens.shape, -1.0)

    out = run_chain(
        Scripted(rule), start([2, 2]), REFINE, passes=9, candidates=2, keep_history=True
    )
    assert out.tokens[:, 1].tolist() == [10, 15]
    assert out.history[-1].draft[:, 1].tolist() == [10, 15]


def test_a_hook_may_change_what_the_next_pass_sees() -> None:
    seen = []

    def hook(state: ChainState, step: int) -> ChainState:
        seen.append(step)
        return replace(state, tokens=state.tokens.masked_fill(state.free, 40 + step))

    model = Scripted(climbing(torch.tensor([5])))
    run_chain(model, start([2]), REFINE, passes=3, before_pass=hook)
    assert seen == [0, 1, 2]
    assert [s[0, 1].item() for s in model.shown] == [40, 41, 42]


def test_given_tokens_are_never_touched() -> None:
    state = start([4])
    state.tokens[0, 2] = 77
    free = state.free.clone()
    free[0, 2] = False
    state = replace(state, free=free, pending=free, draft=state.tokens, initial=state.tokens)
    out = run_chain(Scripted(scripted_confidence), state, MaskPredict(), passes=3)
    assert out.tokens[0, 2] == 77
    assert out.scores[0, 2] == 0
