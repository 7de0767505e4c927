"""Checkpoints that earlier versions wrote load, safely, and decode as they did then."""

from pathlib import Path
from typing import Any, Dict, List

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import kept

from fairseq_gmlm.data.averaging import average_checkpoints
from fairseq_gmlm.data.checkpoints import field, load_checkpoint, section
from fairseq_gmlm.version import __version__

VERSIONS = sorted(path for path in kept.FOLDER.iterdir() if path.is_dir())
CHECKPOINTS = sorted(kept.FOLDER.glob("*/*.pt"))
MOST_BYTES = 400_000


def name_of(path: Path) -> str:
    """Version and file."""
    return f"{path.parent.name}/{path.name}"


def test_this_version_has_its_files() -> None:
    names = {path.name for path in CHECKPOINTS if path.parent.name == __version__}
    assert {"gmlm_transformer.pt", "gmlm_transformer_args.pt", "gmlm_lm.pt"} <= names
    for folder in VERSIONS:
        assert sorted(kept.expected(folder)) == sorted(p.name for p in folder.glob("*.pt"))
        assert sum(path.stat().st_size for path in folder.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("path", CHECKPOINTS, ids=name_of)
def test_it_loads_safely_and_decodes_as_it_did(path: Path) -> None:
    load_checkpoint(path)
    found, wanted = kept.answers(path), kept.expected(path.parent)[path.name]
    assert [each["source"] for each in found] == [each["source"] for each in wanted]
    assert [each["text"] for each in found] == [each["text"] for each in wanted]
    for mine, other in zip(found, wanted):
        assert abs(mine["score"] - other["score"]) < 1e-3, mine


@pytest.mark.parametrize("path", CHECKPOINTS, ids=name_of)
def test_no_file_names_a_machine(path: Path) -> None:
    content = path.read_bytes().replace(b"/tmp/plasma", b"")  # a default of fairseq
    for place in (b"/home/", b"/root", b"/tmp", b"/work/", b"/Users/"):
        assert place not in content
    state = load_checkpoint(path)
    save_dir = field(section(state, "checkpoint"), "save_dir")
    for value in (save_dir, field(section(state, "task"), "data")):
        assert not Path(value).is_absolute()


def test_options_in_a_namespace_are_those_of_the_newer_form() -> None:
    old, new = (
        load_checkpoint(kept.FOLDER / "0.1.0" / f"gmlm_transformer{end}.pt") for end in ("_args", "")
    )  # fmt: skip
    assert "cfg" not in old and old["args"].arch == "gmlm_transformer"
    assert new.get("args") is None and new["cfg"]["model"]
    for name in ("encoder_embed_dim", "decoder_layers", "share_all_embeddings"):
        assert field(section(old, "model"), name) == field(section(new, "model"), name)
    assert field(section(old, "task"), "source_lang") == "a"
    assert all(torch.equal(old["model"][k], v) for k, v in new["model"].items())


def test_both_forms_average_with_each_other(tmp_path: Path) -> None:
    paths = [
        kept.FOLDER / "0.1.0" / f"gmlm_transformer{end}.pt" for end in ("", "_args")
    ]  # fmt: skip
    state = average_checkpoints(paths)
    whole = load_checkpoint(paths[0])
    assert all(torch.equal(state["model"][k], v) for k, v in whole["model"].items())


def test_an_ensemble_of_both_forms_is_loaded_by_fairseq() -> None:
    folder = kept.FOLDER / "0.1.0"
    paths: List[str] = [str(folder / f"gmlm_transformer{end}.pt") for end in ("", "_args")]
    overrides: Dict[str, Any] = {"data": str(folder)}
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task(paths, arg_overrides=overrides)
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[name], second[name]) for name in first)
