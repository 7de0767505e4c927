"""Checkpoints are read with torch's safe loader, and options of every kind of configuration."""

import argparse
import os
import pickle
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from helpers import models as make
from omegaconf import OmegaConf

from fairseq_gmlm.compat import (
    allow_checkpoint_types,
    autocast_dtype,
    load_plain,
    option,
    torch_version,
)
from fairseq_gmlm.data.checkpoints import load_checkpoint


class Hostile:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


PLAIN = {
    "namespace": argparse.Namespace(arch="gmlm_transformer", lr=[0.1]),
    "numpy scalar": np.float64(1.5),
    "numpy 32": np.float32(1.5),
    "numpy integer": np.int64(3),
    "numpy boolean": np.bool_(True),
    "numpy array": np.arange(4),
    "numpy floats": np.arange(4.0, dtype=np.float32),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_what_fairseq_keeps_in_a_checkpoint_is_loaded_safely(kind: str, tmp_path: Path) -> None:
    torch.save({"model": {}, "extra": PLAIN[kind]}, tmp_path / "c.pt")
    loaded = load_plain(tmp_path / "c.pt")["extra"]
    assert type(loaded) is type(PLAIN[kind])
    np.testing.assert_equal(loaded, PLAIN[kind])


@pytest.mark.skipif(torch_version() < (2, 6), reason="older torch knows no second names")
@pytest.mark.parametrize("value", [np.float64(1.5), np.arange(3)])
def test_what_the_other_numpy_wrote_is_loaded(value: Any, tmp_path: Path) -> None:
    """numpy 2 renamed the module that pickles refer to; files of both kinds are about."""
    names = [b"numpy._core.multiarray", b"numpy.core.multiarray"]
    here, there = names if np.__version__ >= "2" else names[::-1]
    torch.save({"model": {}, "extra": value}, tmp_path / "c.pt")
    with zipfile.ZipFile(tmp_path / "c.pt") as old, zipfile.ZipFile(tmp_path / "d.pt", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("data.pkl"):
                assert here in data
                data = data.replace(here, there)
            new.writestr(name, data)
    loaded = torch.load(tmp_path / "d.pt", weights_only=True)["extra"]
    np.testing.assert_equal(loaded, value)


def test_a_hostile_file_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    torch.save({"model": {}, "args": Hostile(trap)}, tmp_path / "c.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "c.pt", weights_only=True)
    with pytest.raises(ValueError, match=r"c.pt: refused, damaged or with more than plain data"):
        load_checkpoint(tmp_path / "c.pt")
    if torch_version() >= (2, 6):  # where fairseq's own way in is safe as well
        with pytest.raises(pickle.UnpicklingError):
            checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "c.pt"))
    assert not trap.exists()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    torch.save({"model": {"w": torch.zeros(1000)}}, path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"not a checkpoint"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"c.pt: (refused, damaged|damaged or cut short)"):
            load_checkpoint(path)
    path.unlink()
    with pytest.raises(ValueError, match=r"no such file: .*c.pt"):
        load_checkpoint(path)
    torch.save([1, 2], path)
    with pytest.raises(
        ValueError, match=r"c.pt: not a checkpoint of fairseq \(it holds no model\)"
    ):
        load_checkpoint(path)


@pytest.mark.skipif(torch_version() < (2, 5), reason="older torch shows no list")
def test_allowing_twice_is_harmless() -> None:
    before = len(torch.serialization.get_safe_globals())
    allow_checkpoint_types()
    assert len(torch.serialization.get_safe_globals()) == before


@pytest.mark.skipif(torch_version() < (2, 5), reason="older torch shows no list")
def test_the_check_itself_stays_on() -> None:
    allowed = {
        getattr(item[0] if isinstance(item, tuple) else item, "__module__", "")
        for item in torch.serialization.get_safe_globals()
    }
    assert not allowed & {"os", "posix", "subprocess", "builtins", "sys"}
    assert os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD") is None


@dataclass
class Options:
    """One option."""

    here: int = 3


def test_options_of_every_kind_of_configuration() -> None:
    strict = OmegaConf.structured(Options())
    OmegaConf.set_struct(strict, True)
    for cfg in (argparse.Namespace(here=3), Options(), OmegaConf.create({"here": 3}), strict):
        assert option(cfg, "here", 7) == 3
        assert option(cfg, "absent", 7) == 7
    assert option(argparse.Namespace(here=None), "here", 7) == 7
    assert option(argparse.Namespace(here=0), "here", 7) == 0


def test_autocast_dtype() -> None:
    assert autocast_dtype("cpu") is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert autocast_dtype("cpu") == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert autocast_dtype("cpu") is None


def test_torch_version_is_two_numbers() -> None:
    assert torch_version() == tuple(int(x) for x in torch.__version__.split(".")[:2])


def test_encoders_whose_weights_were_loaded_take_padded_sources() -> None:
    """fairseq 0.12.2 then calls a fused kernel that torch has changed since."""
    stock, _ = make.stock_cmlm()
    source = make.pad([[0, *row] for row in make.sources((3, 7, 1))], left=True)
    with torch.no_grad():
        before = stock.encoder(source, src_lengths=source.ne(1).sum(1))["encoder_out"][0]
        stock.load_state_dict(stock.state_dict())
        after = stock.eval().encoder(source, src_lengths=source.ne(1).sum(1))["encoder_out"][0]
    assert torch.equal(before, after)


def test_a_copy_of_a_checkpoint_is_whole_or_not_there(tmp_path: Path, monkeypatch: Any) -> None:
    """fairseq copies to ``checkpoint_last.pt`` in place, where the next run resumes from."""
    new, last = tmp_path / "checkpoint2.pt", tmp_path / "checkpoint_last.pt"
    new.write_bytes(b"new" * 100)
    last.write_bytes(b"old")
    copy = shutil.copyfile

    def crash(source: str, destination: str) -> None:
        Path(destination).write_bytes(Path(source).read_bytes()[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfile", crash)
    with pytest.raises(KeyboardInterrupt):
        PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == b"old"
    monkeypatch.setattr(shutil, "copyfile", copy)
    assert PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == new.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, last.name]
