"""The positional attention sub-layer (spec 3.1); its values are checked in test_t5_style."""

import padir_support as support
import torch

SOURCE = torch.tensor([[4, 5, 6, 2]])


def test_it_adds_one_sub_layer_a_decoder_layer_and_one_table() -> None:
    plain = {name for name, _ in support.model().named_parameters()}
    more = {n for n, _ in support.model(positional_attention=True).named_parameters()} - plain
    tables = {n for n in more if "positional_attn" not in n}
    assert tables == {
        "decoder.places.weight",
        "decoder.places_norm.weight",
        "decoder.places_norm.bias",
    }
    assert len({n.split(".")[2] for n in more if "positional_attn" in n}) == 2
    assert not [n for n in more if n.startswith("encoder.")]


def test_positions_alone_decide_where_it_looks() -> None:
    """Changing a word changes what the sub-layer reads, not its weights."""
    model = support.model(positional_attention=True, decoder_layers=1)
    layer, seen = model.decoder.layers[0].positional_attn, []
    layer.register_forward_pre_hook(lambda module, given: seen.append(given))
    memory = model.encode(SOURCE)
    for tokens in ([0, 5, 6, 7, 2], [0, 8, 6, 9, 2]):
        model.decode(torch.tensor([tokens]), memory)
    (queries, keys, values, *_), (other_queries, other_keys, other_values, *_) = seen
    assert torch.equal(queries, other_queries)
    assert torch.equal(keys, other_keys)
    assert not torch.equal(values, other_values)


def test_it_is_a_plain_residual_without_dropout() -> None:
    """With its output matrix at zero nothing changes, also with dropout in training."""
    with_it = support.model(positional_attention=True, dropout=0.3)
    for layer in with_it.decoder.layers:
        torch.nn.init.zeros_(layer.positional_attn.out_proj.weight)
        torch.nn.init.zeros_(layer.positional_attn.out_proj.bias)
    without = support.model(dropout=0.3)
    state = {k: v for k, v in with_it.state_dict().items() if k in without.state_dict()}
    without.load_state_dict(state)
    target = torch.tensor([[0, 5, 16, 16, 2]])
    for training in (False, True):
        outputs = []
        for model in (with_it, without):
            model.train(training)
            torch.manual_seed(0)
            outputs.append(model(SOURCE, None, target))
        torch.testing.assert_close(*outputs)


def test_padding_is_not_read() -> None:
    model = support.model(positional_attention=True)
    alone = model(SOURCE, None, torch.tensor([[0, 5, 16, 2]]))
    batch = model(
        SOURCE.expand(2, -1), None, torch.tensor([[0, 5, 16, 2, 1, 1], [0, 5, 6, 7, 8, 2]])
    )
    torch.testing.assert_close(batch[0, :4], alone[0], atol=1e-5, rtol=1e-5)
