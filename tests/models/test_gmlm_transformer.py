"""The model: shapes, padding, candidates that share a memory, and fairseq's own as reference."""

from typing import Any, Dict, List, Tuple

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.nat.cmlm_transformer import CMLMNATransformerModel
from helpers import models as make
from torch import Tensor

from fairseq_gmlm.models.config import ARCHITECTURES
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel
from fairseq_gmlm.models.initialization import IGNORED

KINDS: Dict[str, Dict[str, Any]] = {
    "post-norm, sinusoidal": {},
    "pre-norm, sinusoidal": {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
    },
    "post-norm, learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "pre-norm, learned": {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
    },
    "gelu, no scale": {"activation_fn": "gelu", "no_scale_embedding": True},
}
OURS_ONLY: Dict[str, Dict[str, Any]] = {
    "relative": {"relative_positions": True},
    "t5": {
        "relative_positions": True,
        "norm_type": "rms",
        "no_bias": True,
        "gated_ffn": True,
        "no_scale_attention": True,
        "share_decoder_input_output_embed": True,
        "scale_tied_logits": True,
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
    },
    "positional attention": {"positional_attention": True},
    "length token": {"length_predictor": "token"},
    "length token, relative": {"length_predictor": "token", "relative_positions": True},
    "embedding norm": {"layernorm_embedding": True},
    "odd heads": {"head_dim": 5},
}
EVERY = {**KINDS, **OURS_ONLY}
LENGTHS = (3, 7, 1, 5)


def states_of(
    model: GMLMTransformerModel, source: Tensor, target: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Encoder states, decoder states, length head's output."""
    with torch.no_grad():
        memory = model.encode(source)
        return memory.states, model.decode(target, memory).states, model.lengths(memory)


def real_rows(states: Tensor, tokens: Tensor) -> List[Tensor]:
    """States of each row without its padding."""
    return [s[t.ne(1)] for s, t in zip(states, tokens)]


@pytest.mark.parametrize("kind", EVERY)
def test_shapes(kind: str) -> None:
    model = make.model(**EVERY[kind])
    source, target = make.pad(make.sources(LENGTHS), left=True), make.pad(make.targets(LENGTHS))
    logits = model(source, None, target)
    assert logits.shape == (4, 9, len(model.decoder.dictionary))
    assert model.lengths(model.encode(source)).shape == (4, 21)
    assert model.max_positions() == (20, 20)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("left", [False, True])
def test_padding_and_batching_change_nothing(kind: str, left: bool) -> None:
    model = make.model(**EVERY[kind])
    rows, wanted = make.sources(LENGTHS), make.targets((4, 2, 6, 3))
    source = make.pad(rows, left, width=12)
    target = make.pad(wanted)
    encoded, decoded, lengths = states_of(model, source, target)
    for i, (row, draft) in enumerate(zip(rows, wanted)):
        alone = states_of(model, make.pad([row]), make.pad([draft]))
        torch.testing.assert_close(encoded[i][source[i].ne(1)], alone[0][0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(decoded[i][target[i].ne(1)], alone[1][0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(lengths[i], alone[2][0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", EVERY)
def test_left_padded_drafts_have_the_same_states(kind: str) -> None:
    model = make.model(**EVERY[kind])
    source = make.pad(make.sources(LENGTHS))
    right, left = make.pad(make.targets((4, 2, 6, 3))), make.pad(make.targets((4, 2, 6, 3)), True)
    found = [real_rows(states_of(model, source, t)[1], t) for t in (left, right)]
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", EVERY)
def test_candidates_folded_into_one_memory_equal_separate_runs(kind: str) -> None:
    model = make.model(**EVERY[kind])
    source = make.pad(make.sources((3, 6)), left=True)
    drafts = make.pad(make.targets((4, 2, 6, 3, 5, 1)))  # three for each source
    with torch.no_grad():
        memory = model.encode(source)
        folded = model.decode(drafts, memory).states
        for row, draft in enumerate(drafts):
            single = memory.select(torch.tensor([row // 3]))
            alone = model.decode(draft[None], single).states[0]
            torch.testing.assert_close(folded[row], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", EVERY)
def test_attention_maps_leave_the_states_alone(kind: str) -> None:
    model = make.model(**EVERY[kind])
    source, drafts = make.pad(make.sources((3, 6))), make.pad(make.targets((4, 2, 6, 3)))
    with torch.no_grad():
        memory = model.encode(source)
        fast = model.decode(drafts, memory)
        slow = model.decode(drafts, memory, need_weights=True)
    assert fast.self_attention is None and fast.cross_attention is None
    torch.testing.assert_close(slow.states, fast.states, atol=1e-5, rtol=1e-4)
    assert slow.self_attention.shape == (4, 2, 2, 8, 8)
    assert slow.cross_attention.shape == (4, 2, 2, 8, 7)
    for maps in (slow.self_attention, slow.cross_attention):
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))
    # Nothing attends to padding.
    padded = drafts.eq(1)[:, None, None, None].expand_as(slow.self_attention)
    assert not slow.self_attention[padded].any()


def test_no_padding_may_be_promised() -> None:
    for kind in ({}, {"relative_positions": True}):
        model = make.model(**kind)
        source, drafts = make.pad(make.sources((4, 4))), make.pad(make.targets((5, 5)))
        with torch.no_grad():
            memory = model.encode(source)
            assert memory.mask is None
            torch.testing.assert_close(
                model.decode(drafts, memory, padded=False).states,
                model.decode(drafts, memory, padded=True).states,
            )


def test_the_decoder_sees_both_sides() -> None:
    model = make.model()
    source = make.pad(make.sources((4,)))
    draft = make.pad(make.targets((5,)))
    changed = draft.clone()
    changed[0, 3] = 4 if int(draft[0, 3]) != 4 else 5
    before, after = states_of(model, source, draft)[1], states_of(model, source, changed)[1]
    moved = (before - after).abs().amax(-1)[0]
    assert (moved > 1e-4).all()


def imported(stock: CMLMNATransformerModel, **options: Any) -> GMLMTransformerModel:
    """A ``gmlm_transformer`` with the weights of fairseq's own model."""

    class Owner:
        """What ``build_model`` reads of a task."""

        source_dictionary = target_dictionary = stock.decoder.dictionary
        vocabulary = None

    values = {**make.SMALL, "max_target_positions": 255, **options, "stock_cmlm": True}
    built = GMLMTransformerModel.build_model(make.GMLMTransformerConfig(**values), Owner())
    state = dict(stock.state_dict())
    state["length_predictor.weight"] = state.pop("decoder.embed_length.weight")
    own = built.state_dict()
    taken = {k: v for k, v in state.items() if k in own}
    left = set(state) - set(taken)
    assert all(k.endswith(IGNORED) for k in left), left
    assert set(own) - set(taken) == {"dictionary_version"}
    built.load_state_dict({**own, **taken})
    return built.eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [False, True])
def test_states_of_fairseqs_own_model(kind: str, left: bool) -> None:
    options = {**KINDS[kind], "max_target_positions": 255}
    stock, _ = make.stock_cmlm(**options)
    ours = imported(stock, **options)
    source = make.pad([[0, *row] for row in make.sources(LENGTHS)], left)
    target = make.pad(make.targets((4, 2, 6, 3)))
    target[:, 2] = 3  # unknown: stock's mask
    encoded, decoded, lengths = states_of(ours, source, target)
    with torch.no_grad():
        out = stock.encoder(source, src_lengths=source.ne(1).sum(1))
        expected = out["encoder_out"][0].transpose(0, 1)
        features, _ = stock.decoder.extract_features(target, encoder_out=out)
        log_probs = stock.decoder(normalize=True, prev_output_tokens=target, encoder_out=out)
        length = stock.decoder.forward_length(normalize=False, encoder_out=out)
    for mine, other in zip(real_rows(encoded, source), real_rows(expected, source)):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
    for mine, other in zip(real_rows(decoded, target), real_rows(features, target)):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
    mine = ours.logits(decoded).log_softmax(-1)
    torch.testing.assert_close(mine[target.ne(1)], log_probs[target.ne(1)], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(lengths, length, atol=1e-5, rtol=1e-5)


def test_shared_embeddings_are_one_matrix() -> None:
    shared = make.model(share_all_embeddings=True)
    assert shared.encoder.embed_tokens.weight is shared.decoder.embed_tokens.weight
    assert shared.decoder.output_projection.weight is shared.decoder.embed_tokens.weight
    tied = make.model(share_decoder_input_output_embed=True)
    assert tied.decoder.output_projection.weight is tied.decoder.embed_tokens.weight
    assert tied.encoder.embed_tokens.weight is not tied.decoder.embed_tokens.weight
    apart = make.model()
    assert apart.decoder.output_projection.weight is not apart.decoder.embed_tokens.weight


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_is_registered(name: str) -> None:
    assert ARCH_MODEL_REGISTRY[name] is GMLMTransformerModel


def test_widths_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--encoder-embed-dim 16 and --decoder-embed-dim 8 must"):
        make.model(decoder_embed_dim=8)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of --encoder-attention-heads 3"):
        make.model(encoder_attention_heads=3)


def test_shared_embeddings_of_unequal_dictionaries_are_refused() -> None:
    owner = make.task()
    owner.src_dict.add_symbol("more")
    with pytest.raises(ValueError, match="--share-all-embeddings needs one dictionary"):
        make.model(owner, share_all_embeddings=True)


def test_a_foreign_task_is_told_which_one_to_use() -> None:
    class ForeignTask:
        """A task without a mask symbol."""

    with pytest.raises(ValueError, match=r"with task ForeignTask; add: --task translation_gmlm"):
        GMLMTransformerModel.build_model(make.GMLMTransformerConfig(), ForeignTask())


@pytest.mark.parametrize(("side", "name"), [("encoder", "source"), ("decoder", "target")])
def test_another_dictionary_is_named(side: str, name: str) -> None:
    state = make.model().state_dict()
    owner = make.task()
    dictionary = owner.src_dict if side == "encoder" else owner.tgt_dict
    dictionary.add_symbol("more")
    with pytest.raises(ValueError, match=rf"checkpoint's {name} dictionary has 25 symbols.*26"):
        make.model(owner).load_state_dict(state)


@pytest.mark.parametrize(("side", "name"), [("encoder", "source"), ("decoder", "target")])
def test_a_dictionary_of_equal_size_but_other_words_is_named(side: str, name: str) -> None:
    state = make.model().state_dict()
    owner = make.task()
    dictionary = owner.src_dict if side == "encoder" else owner.tgt_dict
    dictionary.symbols[5], dictionary.symbols[6] = dictionary.symbols[6], dictionary.symbols[5]
    with pytest.raises(ValueError, match=rf"checkpoint's {name} dictionary has the same size"):
        make.model(owner).load_state_dict(state)


def test_a_state_loads_back() -> None:
    state = make.model(seed=1).state_dict()
    other = make.model(seed=2)
    other.load_state_dict(state)
    source, target = make.pad(make.sources(LENGTHS)), make.pad(make.targets(LENGTHS))
    torch.testing.assert_close(
        other(source, None, target), make.model(seed=1)(source, None, target)
    )


def test_the_docstring_is_enough_to_call_the_model() -> None:
    """A plain script that knows only what the class says (fairseq#2515)."""
    model = make.model()
    mask = model.vocabulary.mask
    src_tokens = torch.tensor([[5, 6, 7, 2]])
    prev_output_tokens = torch.tensor([[0, 9, mask, 11, 2]])
    logits = model(src_tokens, torch.tensor([4]), prev_output_tokens)
    assert logits.shape == (1, 5, len(model.decoder.dictionary))
    assert logits.isfinite().all()


def test_dropout_only_in_training() -> None:
    model = make.model(dropout=0.5)
    source, target = make.pad(make.sources(LENGTHS)), make.pad(make.targets(LENGTHS))
    torch.testing.assert_close(model(source, None, target), model(source, None, target))
    model.train()
    assert not torch.allclose(model(source, None, target), model(source, None, target))
