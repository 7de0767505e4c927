"""Every kind of model as a row: loads, translates, counts."""

import sys
from pathlib import Path
from typing import Dict

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_gmlm.comparison.ctranslate2_system import CTranslate2System
from fairseq_gmlm.comparison.loading import load_system
from fairseq_gmlm.comparison.measuring import translate_split
from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.comparison.system import System
from fairseq_gmlm.errors import UserError

TWO = {"iter_decode_max_iter": 1, "iter_decode_force_max_iter": True}


def run(spec: SystemSpec, data: Path):
    """The system and its outputs on the test split."""
    system = load_system(spec, str(data), "test")
    return system, translate_split(system, 4, lambda name: None)[0]


@pytest.mark.parametrize("beam", [1, 5])
def test_autoregressive(beam: int, tiny: Dict[str, Path], tiny_data: Path) -> None:
    options = {"beam": beam, "max_len_b": 6}
    system, outputs = run(SystemSpec("x", str(tiny["transformer"]), options), tiny_data)
    assert (system.kind, system.family) == ("transformer", "autoregressive")
    assert len(outputs) == 11
    assert all(output.passes == len(output.tokens) + 1 for output in outputs)
    assert all(output.leftovers == 0 for output in outputs)


@pytest.mark.parametrize(
    "arch",
    ["nonautoregressive_transformer", "iterative_nonautoregressive_transformer"],
)
def test_nat(arch: str, tiny: Dict[str, Path], tiny_data: Path) -> None:
    options = {**TWO, "iter_decode_with_beam": 2}
    system, outputs = run(SystemSpec("x", str(tiny[arch]), options), tiny_data)
    assert (system.kind, system.family) == (arch, "nat")
    assert {output.passes for output in outputs} == {2}
    assert all(2 <= len(output.tokens) <= 7 for output in outputs)  # without BOS and EOS


def test_insertion_counts_a_pass_for_each_step(tiny, tiny_data: Path) -> None:
    system, outputs = run(SystemSpec("x", str(tiny["insertion_transformer"]), TWO), tiny_data)
    assert system.kind == "insertion_transformer"
    assert all(len(output.tokens) <= 3 for output in outputs)  # 1 slot, then 2 more
    assert {output.passes for output in outputs} == {2.0}


def test_levenshtein_counts_every_run_of_the_decoder(tiny, tiny_data: Path) -> None:
    spec = SystemSpec("x", str(tiny["levenshtein_transformer"]), TWO)
    system, _ = run(spec, tiny_data)
    decoder, calls = system.models[0].decoder, []
    for name in ("forward_word_del", "forward_mask_ins", "forward_word_ins"):
        original = getattr(decoder, name)

        def counted(*args, original=original, **kwargs):
            calls.append(len(kwargs["prev_output_tokens"]))
            return original(*args, **kwargs)

        setattr(decoder, name, counted)
    batch = system.collate(list(range(11)))
    found = system.outputs(batch, system.translate(batch))
    assert {output.passes for output in found.values()} == {sum(calls) / 11}
    assert sum(calls) > 11  # more than one run in two steps


@pytest.mark.parametrize("arch", ["levenshtein_transformer", "insertion_transformer"])
def test_decoding_does_without_libnat(arch: str, tiny, tiny_data: Path, monkeypatch) -> None:
    """fairseq's extension is needed to train these models, not to decode with them."""
    monkeypatch.setitem(sys.modules, "fairseq.libnat", None)
    monkeypatch.setitem(sys.modules, "fairseq.libnat_cuda", None)
    _, outputs = run(SystemSpec("x", str(tiny[arch]), TWO), tiny_data)
    assert len(outputs) == 11


def test_stock_cmlm_counts_what_it_leaves_behind(tiny, tiny_data: Path) -> None:
    """The unknown symbol is its mask; a random model that stops early leaves some."""
    path = str(tiny["cmlm_transformer"])
    system, outputs = run(SystemSpec("x", path, {"iter_decode_max_iter": 9}), tiny_data)
    unknown = [output.tokens.count("<unk>") for output in outputs]
    assert [output.leftovers for output in outputs] == unknown
    assert system.family == "nat"


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        (TWO, {2}),
        ({**TWO, "iter_decode_with_beam": 3, "decode_dtype": "bfloat16"}, {2}),
        (
            {"decode_strategy": "refine", "decode_start": "random", **TWO, "parallel_decodes": 2},
            {2},
        ),
        ({"decode_strategy": "easy-first", "iter_decode_max_iter": 3, "oracle_length": True}, None),
    ],
)
def test_gmlm_with_any_strategy(options, passes, tiny, tiny_data: Path) -> None:
    system, outputs = run(SystemSpec("x", str(tiny["gmlm_transformer"]), options), tiny_data)
    assert (system.kind, system.family) == ("gmlm_transformer", "gmlm")
    assert passes is None or {output.passes for output in outputs} == passes
    assert all(output.leftovers == 0 for output in outputs)
    if options.get("oracle_length"):
        sizes = [len(system.dataset[i]["target"]) - 2 for i in range(11)]  # BOS and EOS
        assert [len(output.tokens) for output in outputs] == sizes


def test_leftover_masks_of_a_gmlm_are_counted(tiny, tiny_data: Path) -> None:
    system = load_system(
        SystemSpec("x", str(tiny["gmlm_transformer"]), TWO), str(tiny_data), "test"
    )
    vocabulary = system.models[0].vocabulary
    tokens = torch.tensor([vocabulary.bos, 5, vocabulary.mask, vocabulary.mask, vocabulary.eos])
    (output,) = system.outputs(
        {"id": torch.tensor([7])}, [{"tokens": tokens, "steps": 1, "passes": 2}]
    ).values()
    assert output.leftovers == 2 and len(output.tokens) == 1


def test_reranker_counts_as_weights(tiny, tiny_data: Path) -> None:
    options = {**TWO, "iter_decode_with_beam": 2}
    path, reranker = str(tiny["gmlm_transformer"]), str(tiny["transformer"])
    alone, _ = run(SystemSpec("x", path, options), tiny_data)
    ranked, outputs = run(SystemSpec("x", path, options, reranker), tiny_data)
    models, _ = checkpoint_utils.load_model_ensemble([reranker], {"data": str(tiny_data)})
    more = sum(p.numel() for p in models[0].parameters())
    assert ranked.parameters == alone.parameters + more
    assert len(outputs) == 11


def test_ctranslate2_finds_what_fairseq_finds(tiny, tiny_data: Path) -> None:
    pytest.importorskip("ctranslate2")
    options = {"beam": 1, "max_len_b": 6}
    path = str(tiny["transformer"])
    _, theirs = run(SystemSpec("x", path, {**options, "unkpen": 1e9}), tiny_data)
    spec = SystemSpec("y", path, options, engine="ctranslate2", compute_type="float32")
    system, ours = run(spec, tiny_data)
    assert isinstance(system, CTranslate2System)
    assert system.kind == "transformer (ctranslate2)" and system.family == "autoregressive"
    # fairseq counts a token less within max_len_b, since it keeps room for EOS.
    same = sum(a.tokens[:5] == b.tokens[:5] for a, b in zip(ours, theirs))
    assert same == 11


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"options": {"iter_decode_max_iter": 3}}, "has no option 'iter_decode_max_iter'"),
        ({"compute_type": "int3"}, "int3"),
        ({"path": "none.pt"}, "no checkpoint at none.pt"),
    ],
)
def test_ctranslate2_names_faults(row, message, tiny, tiny_data: Path) -> None:
    pytest.importorskip("ctranslate2")
    values = {"name": "x", "path": str(tiny["transformer"]), "engine": "ctranslate2", **row}
    with pytest.raises(UserError, match=message):
        load_system(SystemSpec(**values), str(tiny_data), "test")


def test_ctranslate2_refuses_other_models(tiny, tiny_data: Path) -> None:
    pytest.importorskip("ctranslate2")
    spec = SystemSpec("x", str(tiny["cmlm_transformer"]), engine="ctranslate2")
    with pytest.raises(UserError, match=r"'x': .*CMLM"):
        load_system(spec, str(tiny_data), "test")


def test_faults_are_named(tiny, tiny_data: Path, monkeypatch) -> None:
    path = str(tiny["gmlm_transformer"])
    with pytest.raises(UserError, match="no decoding option is called 'beams'"):
        System(SystemSpec("x", path, {"beams": 2}), str(tiny_data), "test")
    with pytest.raises(UserError, match="'split: dev'"):
        System(SystemSpec("x", path), str(tiny_data), "dev")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="'device: cuda' needs a GPU"):
        System(SystemSpec("x", path), str(tiny_data), "test", "cuda")
