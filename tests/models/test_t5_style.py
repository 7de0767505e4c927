"""T5-style models against a forward pass written out by hand, and the named architectures."""

from typing import Any, Dict

import padir_support as support
import pytest
import torch
from fairseq import options
from t5_reference import T5Reference, bucket

from fairseq_gmlm.models.config import _T5, ARCHITECTURES
from fairseq_gmlm.models.layers import RMSNorm
from fairseq_gmlm.models.positions import relative_bucket

SOURCES = [[4, 5, 6, 7, 2], [8, 4, 2], [9, 9, 10, 11, 12, 13, 14, 2]]
TARGETS = [[0, 4, 16, 2], [0, 16, 16, 5, 6, 16, 2], [0, 7, 2]]


def t5(**more: Any) -> Any:
    """A small model with all of T5's settings."""
    values: Dict[str, Any] = {**_T5, "head_dim": 8, "activation_fn": "gelu", "gated_ffn": True}
    return support.model(seed=6, **{**values, **more})


def padded(rows: list) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[1] * (longest - len(row))] for row in rows])


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positional", [True, False])
def test_logits_are_those_worked_out_by_hand(gated: bool, tied: bool, positional: bool) -> None:
    model = t5(
        gated_ffn=gated, share_decoder_input_output_embed=tied, positional_attention=positional
    )
    with torch.no_grad():  # norms that differ from 1, so that their place matters
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    reference = T5Reference(model.state_dict(), heads=2, layers=2, tied=tied)
    logits = model(padded(SOURCES), None, padded(TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
        expected = reference.logits(source, target)
        torch.testing.assert_close(logits[row, : len(target)], expected, atol=2e-4, rtol=1e-4)


def test_buckets_agree_with_plain_python() -> None:
    distances = list(range(-200, 201))
    for buckets, longest in ((32, 128), (8, 20), (16, 64)):
        found = relative_bucket(torch.tensor(distances), buckets, longest).tolist()
        assert found == [bucket(d, buckets, longest) for d in distances]


def test_buckets_by_hand() -> None:
    """32 buckets: 8 exact distances and 8 logarithmic ones for each sign."""
    distances = torch.tensor([0, -1, -7, -8, -11, -16, -127, -128, -999, 1, 7, 8, 128])
    expected = [0, 1, 7, 8, 8, 10, 15, 15, 15, 17, 23, 24, 31]
    assert relative_bucket(distances, 32, 128).tolist() == expected


def test_rms_norm_by_hand() -> None:
    norm = RMSNorm(2)
    found = norm(torch.tensor([[3.0, 4.0]]))
    torch.testing.assert_close(found, torch.tensor([[3.0, 4.0]]) / 12.5**0.5)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


def test_rms_norm_survives_half_precision() -> None:
    found = RMSNorm(4)(torch.full((1, 4), 1000.0, dtype=torch.float16).to(torch.float16))
    assert bool(found.isfinite().all())


def test_no_biases_and_one_table_a_stack() -> None:
    names = [name for name, _ in t5().named_parameters()]
    assert not [n for n in names if n.endswith("bias")]
    assert [n for n in names if "relative_bias" in n] == [
        "encoder.relative_bias.weight",
        "decoder.relative_bias.weight",
    ]
    assert not [n for n in names if "embed_positions" in n]


def test_queries_start_smaller_where_scores_are_not_divided() -> None:
    torch.manual_seed(0)
    plain = support.GMLMTransformerModel.build_model(support.config(), support.task())
    torch.manual_seed(0)
    folded = support.GMLMTransformerModel.build_model(
        support.config(no_scale_attention=True), support.task()
    )
    name = "decoder.layers.0.self_attn.q_proj.weight"
    a, b = (m.state_dict()[name] for m in (plain, folded))
    torch.testing.assert_close(b, a * 8**-0.5)


def test_the_decoder_reads_both_sides_and_not_the_pass() -> None:
    model = t5()
    source = padded(SOURCES[:1])
    first = torch.tensor([[0, 16, 5, 6, 2]])
    other = torch.tensor([[0, 16, 5, 7, 2]])
    assert not torch.allclose(model(source, None, first)[0, 1], model(source, None, other)[0, 1])


def test_left_and_right_padding_agree() -> None:
    model = t5(positional_attention=True)
    right = model(padded(SOURCES[1:2] + SOURCES[2:]), None, padded(TARGETS[:1] + TARGETS[1:2]))
    source = torch.tensor([[1] * 5 + SOURCES[1], SOURCES[2]])
    target = torch.tensor([[1] * 3 + TARGETS[0], TARGETS[1]])
    left = model(source, None, target)
    torch.testing.assert_close(left[0, 3:], right[0, :4], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(left[1], right[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_architectures_reach_the_model(name: str) -> None:
    parser = options.get_training_parser(default_task="translation_gmlm")
    args = options.parse_args_and_arch(
        parser, ["nowhere", "--arch", name, "--criterion", "gmlm_loss"]
    )
    for key, value in ARCHITECTURES[name].items():
        assert getattr(args, key) == value, key


def test_an_option_wins_over_its_architecture() -> None:
    parser = options.get_training_parser(default_task="translation_gmlm")
    line = ["nowhere", "--arch", "gmlm_transformer_t5_small", "--criterion", "gmlm_loss"]
    args = options.parse_args_and_arch(parser, [*line, "--decoder-layers", "2"])
    assert (args.encoder_layers, args.decoder_layers) == (8, 2)
    assert str(args.norm_type) == "rms" and args.relative_positions
