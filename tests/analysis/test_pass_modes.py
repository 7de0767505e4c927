"""Modes of each pass, by hand."""

import pytest
import torch
from chain_examples import MASK, mask_predict_chain, refine_chain

from fairseq_gmlm.analysis.chains import Chain
from fairseq_gmlm.analysis.intervals import Bootstrap
from fairseq_gmlm.analysis.pass_modes import pass_modes

MASKS = torch.tensor([MASK])


def test_passes_of_two_chains() -> None:
    chains = [mask_predict_chain(), refine_chain()]
    first, second = pass_modes(chains, [], MASKS, Bootstrap(20))
    assert (first.number, first.running, second.running) == (1, 2, 2)
    # Drafts 5 5 6 and 5 5 6; then the next pass reads 5 _ _ and 5 4 6.
    assert (first.stutter_before.found, first.stutter_before.total) == (2, 6)
    assert (first.stutter_after.found, first.stutter_after.total) == (0, 4)
    assert first.masked.value == pytest.approx(2 / 6)
    assert first.rejected.value == pytest.approx(3 / 6)
    assert first.confidence.value == pytest.approx((3 * 0.25 + 3 * 0.5) / 6)
    # Then 5 7 6 and 5 5 6, whose repeat is left out.
    assert (second.stutter_before.found, second.stutter_after.found) == (1, 0)
    assert second.stutter_after.total == 5
    assert second.predicted.value == pytest.approx(5 / 6)
    assert second.changed.value == pytest.approx(1 / 6)
    assert second.absent_bigrams is None


def test_a_chain_that_has_stopped_keeps_its_draft() -> None:
    short = mask_predict_chain()
    short = Chain(short.steps[0].draft.tolist(), 0.0, 0, 1, short.steps[:1], short.dropped)
    found = pass_modes([short, refine_chain()], [], MASKS, Bootstrap(5))
    assert [p.running for p in found] == [2, 1]
    assert found[1].stutter_before.total == 6
    assert found[1].predicted.total == 3


def test_bigrams_of_drafts_beside_the_teachers() -> None:
    lists = [[[5, 7, 6]]]
    first, second = pass_modes([mask_predict_chain()], lists, MASKS, Bootstrap(5))
    assert (first.absent_bigrams.found, first.mixed_bigrams.found) == (2, 2)
    assert second.absent_bigrams.value == 0
    assert pass_modes([Chain([5], 0.0)], lists, MASKS, Bootstrap(5)) == []
