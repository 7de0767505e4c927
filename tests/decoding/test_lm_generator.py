"""Completing canvases with an untrained language model."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_gmlm.decoding.canvas import FREE, Canvas, start_canvases
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.lm_generator import TextGenerator
from fairseq_gmlm.decoding.strategies.any_order import AnyOrder
from fairseq_gmlm.decoding.strategies.gibbs import Gibbs
from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols
from fairseq_gmlm.words import word_table


@pytest.fixture(scope="module")
def model():
    symbols = Dictionary()
    for piece in ("a@@", "b@@", "c", "d", "e"):
        symbols.add_symbol(piece)
    add_symbols(symbols)
    task = SimpleNamespace(
        source_dictionary=symbols, target_dictionary=symbols, vocabulary=Vocabulary.of(symbols)
    )
    torch.manual_seed(0)
    cfg = GMLMLanguageModelConfig(
        encoder_embed_dim=16, encoder_ffn_embed_dim=16, encoder_layers=1,
        encoder_attention_heads=2, max_positions=10,
    )  # fmt: skip
    return GMLMLanguageModel.build_model(cfg, task).eval()


CANVASES = [Canvas([FREE, 7, FREE, FREE], 1), Canvas([8, FREE], 2), Canvas([5, 6], 3)]


def test_given_tokens_stay_and_every_blank_is_filled(model):
    done = TextGenerator([model], AnyOrder("random"), Choice(1.0)).complete(CANVASES)
    assert [len(d.tokens) for d in done] == [4, 2, 2]
    assert done[0].tokens[1] == 7 and done[1].tokens[0] == 8 and done[2].tokens == [5, 6]
    assert all(4 <= token <= 8 for d in done for token in d.tokens)
    assert done[2].score == 0.0


def test_a_run_ends_with_the_last_mask_even_if_it_samples(model):
    generator = TextGenerator([model], AnyOrder("random"), Choice(1.0), passes=9)
    assert [d.passes for d in generator.complete(CANVASES)] == [3, 1, 0]
    generator = TextGenerator([model], AnyOrder("random", 2), Choice(1.0))
    assert [d.passes for d in generator.complete(CANVASES)] == [2, 1, 0]
    generator = TextGenerator([model], Gibbs(), Choice(1.0), passes=4)
    assert [d.passes for d in generator.complete(CANVASES)] == [4, 4, 0]


def test_an_ensemble_of_equal_models_is_the_model(model):
    one = TextGenerator([model], AnyOrder("surest-first"), Choice()).complete(CANVASES)
    two = TextGenerator([model, model], AnyOrder("surest-first"), Choice()).complete(CANVASES)
    for first, second in zip(one, two):
        assert first.tokens == second.tokens
        assert first.score == pytest.approx(second.score, abs=1e-5)


def test_a_blank_ends_with_the_end_of_a_word(model):
    table = word_table(model.encoder.dictionary.symbols, "subword-nmt")
    canvases = [Canvas([FREE] * 3 + [7], key, firsts=(0, 3), lasts=(2,)) for key in range(60)]
    free = TextGenerator([model], AnyOrder("random"), Choice(1.0)).complete(canvases)
    assert any(d.tokens[2] in (4, 5) for d in free)
    done = TextGenerator([model], AnyOrder("random"), Choice(1.0), table=table).complete(canvases)
    assert not any(d.tokens[2] in (4, 5) for d in done)
    assert any(d.tokens[1] in (4, 5) for d in done)


def test_where_a_blank_begins_a_word_begins(model):
    marked = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "b", "\u2581c", "d", "e", "<gmlm mask>"]
    table = word_table(marked, "sentencepiece")
    canvases = [Canvas([FREE] * 2, key, firsts=(0,), lasts=(1,)) for key in range(60)]
    done = TextGenerator([model], AnyOrder("random"), Choice(1.0), table=table).complete(canvases)
    assert {d.tokens[0] for d in done} == {4, 6}
    assert {d.tokens[1] for d in done} > {5, 7}


def test_texts_longer_than_the_model_are_refused(model):
    generator = TextGenerator([model], AnyOrder(), Choice())
    with pytest.raises(ValueError, match="a text of 9 tokens is longer than the model's 8"):
        generator.complete([Canvas([FREE] * 9, 0)])


def test_starts(model):
    vocabulary = model.vocabulary
    state = start_canvases(CANVASES, vocabulary, "mask", 1)
    mask = vocabulary.mask
    assert state.tokens.tolist() == [
        [0, mask, 7, mask, mask, 2], [0, 8, mask, 2, 1, 1], [0, 5, 6, 2, 1, 1],
    ]  # fmt: skip
    assert torch.equal(state.pending, state.free)
    assert state.place[0].tolist()[1:5] == [0, 0, 1, 2]
    state = start_canvases(CANVASES, vocabulary, "random", 1, draft=True)
    assert torch.isin(state.tokens[state.free], vocabulary.ordinary).all()
    assert not state.pending.any()
    with pytest.raises(ValueError, match="--mask-range N"):
        start_canvases(CANVASES, vocabulary, "mask-range", 1)


def test_another_kind_of_model_is_refused():
    with pytest.raises(ValueError, match="SimpleNamespace is no masked language model"):
        TextGenerator([SimpleNamespace()], AnyOrder(), Choice())
