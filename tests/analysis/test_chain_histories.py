"""What a hypothesis keeps of its chain, and what became of each position."""

import pytest
import torch
from chain_examples import MASK, mask_predict_chain, refine_chain
from helpers import models as make

from fairseq_gmlm.analysis.chains import chain_of, fates
from fairseq_gmlm.analysis.decoder import Decoder

ROWS = make.sources([3, 6, 5])
MASKS = torch.tensor([MASK])


def listed(chain, name: str) -> list:
    return [getattr(fate, name).int().tolist() for fate in fates(chain, MASKS)]


def test_fates_of_mask_predict() -> None:
    chain = mask_predict_chain()
    assert listed(chain, "predicted") == [[1, 1, 1], [0, 1, 1]]
    assert listed(chain, "changed") == [[1, 1, 1], [0, 1, 0]]
    assert listed(chain, "kept") == [[1, 0, 0], [1, 1, 1]]
    assert listed(chain, "rejected") == [[0, 1, 1], [0, 0, 0]]
    assert listed(chain, "remasked") == [[0, 1, 1], [0, 0, 0]]


def test_fates_of_refinement() -> None:
    """Any first answer is a change; what is put back without a mask is rejected, not remasked."""
    chain = refine_chain()
    assert listed(chain, "predicted") == [[1, 1, 1], [1, 1, 1]]
    assert listed(chain, "changed") == [[1, 1, 1], [0, 0, 0]]
    assert listed(chain, "rejected") == [[0, 1, 0], [0, 0, 0]]
    assert listed(chain, "remasked") == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "values",
    [
        {"iter_decode_max_iter": 3, "iter_decode_with_beam": 2, "nbest": 2},
        {"iter_decode_max_iter": 2, "decode_strategy": "refine", "decode_start": "random"},
        {"iter_decode_max_iter": 9, "decode_strategy": "easy-first", "positions_per_pass": 2},
    ],
)
def test_steps_are_what_the_model_was_shown(values: dict) -> None:
    owner = make.task()
    model = make.model(owner)
    decoder = Decoder([model], owner, values)
    shown = {}

    def note(state, step):
        for row, tokens, free in zip(state.rows.tolist(), state.tokens, state.free):
            shown.setdefault(row, []).append(tokens[free].tolist())
        return state

    decoder.generator.before_pass = note
    count = decoder.candidates
    for number, sentence in enumerate(decoder.decode(make.sample(ROWS))):
        assert sentence.source == ROWS[number][:-1] and sentence.target is None
        assert sorted(c.candidate for c in sentence.chains) == list(range(count))
        for chain in sentence.chains:
            seen = shown[number * count + chain.candidate]
            assert [s.shown.tolist() for s in chain.steps] == seen[: len(chain.steps)]
            assert [s.next.tolist() for s in chain.steps[:-1]] == seen[1 : len(chain.steps)]
            assert chain.steps[-1].draft.tolist() == chain.tokens == chain.steps[-1].next.tolist()
            assert len(chain.tokens) == chain.length == len(chain.dropped)
            assert bool(chain.steps[-1].scores.le(0).all())


def test_models_without_a_history() -> None:
    hypothesis = {"tokens": torch.tensor([0, 5, 6, 2]), "score": torch.tensor(-0.5)}
    chain = chain_of(hypothesis, 1, {0, 1, 2})
    assert (chain.tokens, chain.passes, chain.steps) == ([5, 6], 4, [])
    assert fates(chain, MASKS) == []
    assert chain_of({**hypothesis, "steps": 2}, 1, {0, 1, 2}).passes == 3
