"""The masked language model: positions, padding, heads, losses, checkpoints."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.lm_config import LM_ARCHITECTURES, POSITIONS, GMLMLanguageModelConfig
from fairseq_gmlm.models.positions import sinusoid_table
from fairseq_gmlm.models.unrolling import Unrolling
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols


def dictionary(mask=True, words=8):
    found = Dictionary()
    for i in range(words):
        found.add_symbol(f"w{i}")
    if mask:
        add_symbols(found)
    else:
        found.add_symbol("<mask>")  # as sentence_prediction does
    return found


def build(mask=True, words=8, task=None, seed=0, **options):
    torch.manual_seed(seed)
    values = {
        "encoder_embed_dim": 16,
        "encoder_ffn_embed_dim": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 2,
        "max_positions": 12,
    }
    cfg = GMLMLanguageModelConfig(**{**values, **options})
    symbols = dictionary(mask, words)
    if task is None:
        task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
        if mask:
            task.vocabulary = Vocabulary.of(symbols)
    model = GMLMLanguageModel.build_model(cfg, task)
    # Biases and norms away from 0 and 1, so that nothing is right by accident.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


TOKENS = torch.tensor([[0, 4, 5, 6, 7, 2], [0, 8, 9, 2, 1, 1]])


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_text_gets_the_same_logits_alone_and_padded_on_either_side(positions, pre_norm):
    model = build(positions=positions, encoder_normalize_before=pre_norm)
    together, _ = model(TOKENS)
    alone, _ = model(TOKENS[1:, :4])
    left, _ = model(torch.tensor([[1, 1, 0, 8, 9, 2]]))
    assert together.shape == (2, 6, len(model.encoder.dictionary))
    assert torch.allclose(together[1, :4], alone[0], atol=1e-5)
    assert torch.allclose(left[0, 2:], alone[0], atol=1e-5)
    # Nothing is padded in the second call: the mask may be spared.
    states = model.decode(TOKENS[1:, :4], padded=False).states
    assert torch.allclose(model.logits(states), alone, atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_position_sees_both_sides(positions):
    model = build(positions=positions)
    before, _ = model(TOKENS[:1])
    for changed in (1, 4):
        tokens = TOKENS[:1].clone()
        tokens[0, changed] = 10
        after, _ = model(tokens)
        assert ((after - before).abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_word_order_matters(positions):
    model = build(positions=positions)
    first, _ = model(torch.tensor([[0, 4, 5, 6, 2]]))
    second, _ = model(torch.tensor([[0, 6, 5, 4, 2]]))
    assert (first[0, 2] - second[0, 2]).abs().max() > 1e-6


def test_relative_attention_is_the_formula_of_the_paper():
    model = build(positions="relative", dropout=0.0, attention_dropout=0.0)
    attention = model.encoder.layers[0].self_attn
    assert attention.distances.table.shape == (255, 8)
    assert torch.equal(attention.distances.table, sinusoid_table(255, 8))
    assert not [n for n in model.state_dict() if "distances" in n]
    length = 140  # beyond the clipping distance
    x = torch.randn(2, length, 16)
    real = torch.ones(2, length, dtype=torch.bool)
    real[1, 100:] = False
    keys, values = attention.project(x)
    out, weights = attention(x, keys, values, real[:, None, None], need_weights=True)
    q = attention.split(attention.q_proj(x))
    place = torch.arange(length)
    a = attention.distances.table[(place[None] - place[:, None]).clamp(-127, 127) + 127]
    scores = torch.einsum("bhid,bhijd->bhij", q, keys[:, :, None] + a) * 8**-0.5
    probs = scores.masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
    expected = torch.einsum("bhij,bhijd->bhid", probs, values[:, :, None] + a)
    expected = attention.out_proj(expected.transpose(1, 2).reshape(2, length, 16))
    assert torch.allclose(weights, probs, atol=1e-5)
    assert torch.allclose(out, expected, atol=1e-4)
    assert torch.equal(a[0, 127], a[0, 139])
    assert not torch.equal(a[0, 126], a[0, 127])


def test_relative_positions_take_texts_longer_than_any_table():
    model = build(positions="relative")
    tokens = torch.randint(4, 12, (1, 300))
    assert model(tokens)[0].shape[1] == 300


@pytest.mark.parametrize("plain", [True, False])
def test_training_loss_is_the_weighted_cross_entropy_of_forward(plain):
    model = build(no_prediction_head=plain, dropout=0.0, attention_dropout=0.0).train()
    mask = model.vocabulary.mask
    shown = TOKENS.clone()
    shown[0, 1] = shown[0, 3] = shown[1, 2] = mask
    weights = torch.zeros(2, 6)
    weights[0, 1], weights[0, 3], weights[1, 2] = 0.5, 0.5, 1.0
    free = (TOKENS > 2).float()
    plan = Unrolling(TOKENS, weights, free, free.bool())
    out = model(TOKENS, None, shown, plan=plan)
    log_probs = model(shown)[0].log_softmax(-1)
    gold = log_probs.gather(-1, TOKENS[..., None]).squeeze(-1)
    assert torch.allclose(out.stages[0].loss, -(gold * weights).sum(), atol=1e-5)
    assert int(out.counts[0]) == 3 and out.length is None
    out.stages[0].loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_second_stage_reads_the_models_own_best_guess():
    model = build(dropout=0.0, attention_dropout=0.0)
    mask = model.vocabulary.mask
    shown = TOKENS.masked_fill(TOKENS > 2, mask)
    free = TOKENS > 2
    plan = Unrolling(TOKENS, free.float(), free.float(), free, stages=2)
    out = model(TOKENS, None, shown, plan=plan)
    logits = model(shown)[0].index_fill(-1, model.banned, -torch.inf)
    draft = torch.where(free, logits.argmax(-1), TOKENS)
    gold = model(draft)[0].log_softmax(-1).gather(-1, TOKENS[..., None]).squeeze(-1)
    assert torch.allclose(out.stages[1].loss, -(gold * free).sum(), atol=1e-5)


def test_nothing_masked_gives_a_zero_loss_with_a_gradient():
    model = build().train()
    none = torch.zeros(2, 6)
    out = model(TOKENS, None, TOKENS, plan=Unrolling(TOKENS, none, none, none.bool()))
    out.stages[0].loss.backward()
    assert float(out.stages[0].loss) == 0.0


def test_classification_reads_the_first_token():
    model = build()
    model.register_classification_head("topic", num_classes=3)
    states, _ = model(TOKENS, features_only=True)
    logits, _ = model(TOKENS, features_only=True, classification_head_name="topic")
    head = model.classification_heads["topic"]
    expected = head.out_proj(torch.tanh(head.dense(states[:, 0])))
    assert torch.allclose(logits, expected, atol=1e-6)


def load(model, state):
    state = {key: value.clone() for key, value in state.items()}
    model.load_state_dict(state, strict=True)


def test_a_checkpoint_moves_to_fine_tuning_and_keeps_its_words():
    trained = build()
    tuned = build(mask=False, seed=1)
    tuned.register_classification_head("topic", num_classes=2)
    fresh = tuned.classification_heads["topic"].dense.weight.clone()
    load(tuned, trained.state_dict())
    assert torch.equal(tuned.encoder.embed_tokens.weight, trained.encoder.embed_tokens.weight)
    assert torch.equal(tuned.classification_heads["topic"].dense.weight, fresh)
    assert torch.equal(tuned(TOKENS)[0], trained(TOKENS)[0])
    again = build(mask=False, seed=2)
    again.register_classification_head("topic", num_classes=2)
    load(again, tuned.state_dict())
    assert torch.equal(again.classification_heads["topic"].dense.weight, fresh)


def test_heads_of_another_size_or_name_are_left_out(caplog):
    tuned = build(mask=False)
    tuned.register_classification_head("topic", num_classes=2)
    tuned.register_classification_head("old", num_classes=2)
    other = build(mask=False)
    other.register_classification_head("topic", num_classes=5)
    load(other, tuned.state_dict())
    assert other.classification_heads["topic"].out_proj.out_features == 5
    assert "head topic of the checkpoint is left out: its size differs" in caplog.text
    assert "head old of the checkpoint is left out" in caplog.text
    eager = build(mask=False, load_checkpoint_heads=True)
    load(eager, tuned.state_dict())
    assert sorted(eager.classification_heads) == ["old", "topic"]


def test_position_tables_of_another_length_are_cut_or_extended(caplog):
    trained = build()
    longer = build(max_positions=20)
    load(longer, trained.state_dict())
    assert torch.equal(longer(TOKENS)[0], trained(TOKENS)[0])
    assert "14 rows in the checkpoint, 22 here; the rest stays untrained" in caplog.text
    shorter = build(max_positions=8)
    load(shorter, trained.state_dict())
    assert torch.equal(shorter(TOKENS)[0], trained(TOKENS)[0])


def test_another_dictionary_is_refused():
    with pytest.raises(ValueError, match="dictionary has other symbols"):
        load(build(), build(words=9).state_dict())


def test_a_translation_task_is_refused():
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary(words=9))
    with pytest.raises(ValueError, match="gmlm_lm is a model of texts without a source"):
        build(task=task)


def test_texts_longer_than_the_positions_are_refused():
    symbols = dictionary()
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols, longest_text=13)
    with pytest.raises(
        ValueError, match="--tokens-per-sample 13 is longer than --max-positions 12"
    ):
        build(task=task)


def test_sizes_of_the_named_architectures():
    shape = {
        name: [
            getattr(GMLMLanguageModelConfig(**values), field)
            for field in (
                "encoder_layers",
                "encoder_embed_dim",
                "encoder_attention_heads",
                "encoder_ffn_embed_dim",
            )
        ]
        for name, values in LM_ARCHITECTURES.items()
    }
    assert shape["gmlm_lm_base"] == [12, 768, 12, 3072]
    assert shape["gmlm_lm_large"] == [24, 1024, 16, 4096]
    assert shape["gmlm_lm_tiny"] == [4, 128, 4, 512]
