"""Length candidates, canvases and random starts."""

from argparse import Namespace
from typing import Any, Optional

import pytest
import torch
from helpers import models as make
from torch import Tensor

from fairseq_gmlm.counter_rng import row_keys
from fairseq_gmlm.decoding.candidates import candidate_lengths, start_chain
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel


def options(**values: Any) -> DecodingOptions:
    """Decoding options from generation arguments."""
    return DecodingOptions.of(DecodingConfig(), Namespace(**values))


def biased(logits: Tensor, **config: Any) -> GMLMTransformerModel:
    """A model whose length head always gives these logits (classes 0 .. 20)."""
    model = make.model(**config)
    model.lengths = lambda memory: logits.expand(memory.states.size(0), -1)
    return model


def lengths_of(
    model: GMLMTransformerModel,
    chosen: DecodingOptions,
    count: int = 2,
    target: Optional[Tensor] = None,
    empty: Optional[Tensor] = None,
) -> Tensor:
    """Candidate lengths for ``count`` sources."""
    with torch.no_grad():
        memory = model.encode(make.pad(make.sources([3] * count)))
    nothing = torch.zeros(count, dtype=torch.bool) if empty is None else empty
    return candidate_lengths(model, memory, chosen, target, nothing)


def peaks(*best: int) -> Tensor:
    """Logits that prefer these lengths, in this order."""
    logits = torch.full((21,), -9.0)
    for rank, length in enumerate(best):
        logits[length] = 5.0 - rank
    return logits


def test_likeliest_lengths_first_with_their_log_probabilities() -> None:
    logits = peaks(7, 4, 12)
    lengths, scores = lengths_of(biased(logits), options(iter_decode_with_beam=3))
    assert lengths.tolist() == [[7, 4, 12]] * 2
    expected = logits.log_softmax(0)[[7, 4, 12]]
    torch.testing.assert_close(scores, expected.expand(2, -1))


def test_there_is_always_room_for_one_word_and_never_more_than_the_table_has() -> None:
    lengths, _ = lengths_of(biased(peaks(2, 0, 20, 1, 3)), options(iter_decode_with_beam=2))
    assert lengths.tolist() == [[20, 3]] * 2


def test_offsets_surround_each_length_within_bounds() -> None:
    chosen = options(iter_decode_with_beam=2, length_offset_beam=3)
    lengths, _ = lengths_of(biased(peaks(20, 5)), chosen)
    assert lengths.tolist() == [[19, 20, 20, 4, 5, 6]] * 2
    assert chosen.candidates == 6


def test_parallel_chains_repeat_each_length() -> None:
    chosen = options(
        iter_decode_with_beam=2,
        parallel_decodes=2,
        decode_strategy="refine",
        decode_start="random",
    )
    lengths, _ = lengths_of(biased(peaks(6, 9)), chosen)
    assert lengths.tolist() == [[6, 6, 9, 9]] * 2


def test_an_empty_source_has_an_empty_target() -> None:
    lengths, _ = lengths_of(
        biased(peaks(7, 4)), options(iter_decode_with_beam=2), empty=torch.tensor([False, True])
    )
    assert lengths.tolist() == [[7, 4], [2, 2]]


def test_the_oracle_takes_the_references_lengths() -> None:
    target = make.pad(make.targets((5, 2)))
    lengths, _ = lengths_of(biased(peaks(9)), options(oracle_length=True), target=target)
    assert lengths.tolist() == [[7], [4]]
    with pytest.raises(ValueError, match="--oracle-length needs references"):
        lengths_of(biased(peaks(9)), options(oracle_length=True))


def test_more_lengths_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--iter-decode-with-beam 30 asks for more lengths"):
        lengths_of(biased(peaks(9)), options(iter_decode_with_beam=30))


@pytest.mark.parametrize("start", ["mask", "random"])
def test_canvases(start: str) -> None:
    model = make.model()
    keys = row_keys(torch.tensor([[5, 6], [7, 8]]), torch.ones(2, 2, dtype=torch.bool))
    lengths = torch.tensor([[4, 6], [2, 3]])
    state, padded = start_chain(model, lengths, start, keys, 1, 1)
    assert padded
    assert state.tokens.shape == (4, 6)
    assert state.free.sum(1).tolist() == [2, 4, 0, 1]
    assert state.tokens[:, 0].tolist() == [0] * 4
    ends = state.tokens.gather(1, lengths.view(-1, 1) - 1).flatten()
    assert ends.tolist() == [2] * 4
    assert state.tokens.eq(1).sum(1).tolist() == [2, 0, 4, 3]
    filled = state.tokens[state.free]
    if start == "mask":
        assert filled.eq(model.vocabulary.mask).all()
    else:
        assert torch.isin(filled, model.vocabulary.ordinary).all()
    assert torch.equal(state.pending, state.free)
    assert state.place[1].tolist()[1:5] == [0, 1, 2, 3]


def test_equal_lengths_need_no_padding_mask() -> None:
    keys = torch.tensor([1, 2])
    _, padded = start_chain(make.model(), torch.tensor([[4], [4]]), "mask", keys, 1, 1)
    assert not padded


def test_random_starts_depend_on_sentence_candidate_and_seed_only() -> None:
    model = make.model()
    keys = torch.tensor([11, 22, 33])
    lengths = torch.tensor([[12, 12], [12, 9], [8, 12]])
    state, _ = start_chain(model, lengths, "random", keys, 1, 1)
    alone, _ = start_chain(model, lengths[1:2], "random", keys[1:2], 1, 1)
    assert torch.equal(alone.tokens, state.tokens[2:4])
    other, _ = start_chain(model, lengths, "random", keys, 2, 1)
    assert not torch.equal(other.tokens, state.tokens)
    # Candidates of one sentence start apart, and so do sentences.
    assert not torch.equal(state.tokens[0], state.tokens[1])
    assert not torch.equal(state.tokens[0], state.tokens[2])


def test_a_start_of_per_position_masks() -> None:
    owner = make.task(mask_range=18)
    model = make.model(owner)
    state, _ = start_chain(
        model, torch.tensor([[5], [3]]), "mask-range", torch.tensor([1, 2]), 1, 1
    )
    first = owner.vocabulary.mask_ids[0].item()
    assert state.tokens.tolist() == [
        [0, first, first + 1, first + 2, 2],
        [0, first, 2, 1, 1],
    ]
    with pytest.raises(ValueError, match=r"--decode-start mask-range needs a model trained with"):
        start_chain(make.model(), torch.tensor([[5]]), "mask-range", torch.tensor([1]), 1, 1)
