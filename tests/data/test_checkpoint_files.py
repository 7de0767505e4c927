"""fairseq_gmlm.data.checkpoints: safe loading, and choosing among files."""

import argparse
import os

import pytest
import torch

from fairseq_gmlm.data.checkpoints import (
    best_checkpoints,
    field,
    last_checkpoints,
    load_checkpoint,
    section,
)
from fairseq_gmlm.errors import UserError


class Hostile:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def save(path, updates=1, value=None, metric="loss", maximize=False):
    checkpoint = {"best_checkpoint_metric": metric, "maximize_best_checkpoint_metric": maximize}
    state = {
        "model": {"w": torch.zeros(1)},
        "cfg": {"checkpoint": checkpoint, "task": argparse.Namespace(source_lang="en")},
        "optimizer_history": [{"num_updates": updates}],
        "extra_state": {"val_loss": value},
    }
    torch.save(state, path)
    return path


def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path):
    torch.save({"model": {"w": Hostile(tmp_path / "hacked")}}, tmp_path / "evil.pt")
    with pytest.raises(UserError, match=r"evil\.pt: refused"):
        load_checkpoint(tmp_path / "evil.pt")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_truncated_files_are_named(tmp_path, keep):
    path = save(tmp_path / "cut.pt")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"cut\.pt: "):
        load_checkpoint(path)


def test_other_files_are_named(tmp_path):
    (tmp_path / "text.pt").write_text("hello\n")
    with pytest.raises(UserError, match=r"text\.pt: "):
        load_checkpoint(tmp_path / "text.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="not a checkpoint of fairseq"):
        load_checkpoint(tmp_path / "list.pt")
    with pytest.raises(UserError, match="no such file"):
        load_checkpoint(tmp_path / "none.pt")


def test_options_of_new_and_old_checkpoints(tmp_path):
    new = load_checkpoint(save(tmp_path / "new.pt"), mmap=True)
    assert field(section(new, "task"), "source_lang") == "en"
    assert field(section(new, "checkpoint"), "best_checkpoint_metric") == "loss"
    old = {"args": argparse.Namespace(source_lang="de", data=None)}
    assert field(section(old, "task"), "source_lang") == "de"
    assert field(section(old, "task"), "data", "nothing") == "nothing"
    assert field(section(old, "task"), "missing") is None


def test_files_in_the_format_before_torch_1_6_load(tmp_path):
    state = {"model": {"w": torch.ones(1)}, "args": argparse.Namespace(arch="transformer")}
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for mmap in (False, True):
        assert load_checkpoint(tmp_path / "old.pt", mmap)["model"]["w"].tolist() == [1.0]


def test_last_by_updates_not_by_name(tmp_path):
    for name, updates in [("checkpoint9.pt", 90), ("checkpoint10.pt", 100), ("checkpoint8.pt", 80)]:
        save(tmp_path / name, updates)
    save(tmp_path / "checkpoint_last.pt", 100)
    save(tmp_path / "checkpoint_11_105.pt", 105)
    names = [path.name for path in last_checkpoints(tmp_path, 3)]
    assert names == ["checkpoint9.pt", "checkpoint10.pt", "checkpoint_11_105.pt"]
    with pytest.raises(UserError, match=r"--last 9: .* holds 4 checkpoints"):
        last_checkpoints(tmp_path, 9)


@pytest.mark.parametrize(("maximize", "expected"), [(True, [3, 1]), (False, [2, 1])])
def test_best_in_the_metrics_direction(tmp_path, maximize, expected):
    for epoch, value in [(1, 20.0), (2, 10.0), (3, 30.0)]:
        save(tmp_path / f"checkpoint{epoch}.pt", epoch, value, "bleu", maximize)
    # The same update under the name of a kept best file counts once.
    save(tmp_path / "checkpoint.best_bleu_30.0001.pt", 3, 30.0, "bleu", maximize)
    save(tmp_path / "checkpoint4.pt", 4, None, "bleu", maximize)
    chosen = best_checkpoints(tmp_path, 2, "bleu")
    assert [load_checkpoint(p)["optimizer_history"][-1]["num_updates"] for p in chosen] == expected


def test_another_metric_is_named(tmp_path):
    save(tmp_path / "checkpoint1.pt", 1, 5.0)
    with pytest.raises(UserError, match="rated by loss: give that as --metric"):
        best_checkpoints(tmp_path, 1, "bleu")
    with pytest.raises(UserError, match="--keep-best-checkpoints 2"):
        best_checkpoints(tmp_path, 2, "loss")
    with pytest.raises(UserError, match="no such folder"):
        best_checkpoints(tmp_path / "none", 1, "loss")
