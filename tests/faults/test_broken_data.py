"""Data-bins with a dictionary or an index missing, cut or damaged: the folder or file is named."""

import shutil
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from faults.test_broken_checkpoints import COMMANDS

from fairseq_gmlm.cli.main import main


def missing(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe no dictionary")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dict.de.txt", missing),
        ("dict.de.txt", no_text),
        ("test.en-de.de.idx", cut),
        ("test.en-de.de.bin", missing),
        ("test.en-de.de.bin", cut),
    ],
)
@pytest.mark.parametrize("command", ["compare", "score", "analyze", "trace"])
def test_broken_data_are_named(
    command: str, name: str, change: Callable[[Path], None], small: Dict[str, Path],
    small_data: Path, tmp_path: Path, capsys: Any, monkeypatch: Any,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    data = Path(shutil.copytree(small_data, tmp_path / "data"))
    change(data / name)
    model = small["gmlm_transformer"]
    arguments = COMMANDS[command](model, model, data, tmp_path)
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    message = printed.err.strip().split("\n")[-1]
    assert message.startswith(f"fairseq-gmlm {command}: error: ")
    assert str(data) in message and "Traceback" not in printed.err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("command", ["score", "analyze"])
def test_a_split_without_targets_is_told(
    command: str, small: Dict[str, Path], small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    data = Path(shutil.copytree(small_data, tmp_path / "data"))
    (data / "test.en-de.de.idx").unlink()
    model = small["gmlm_transformer"]
    arguments = COMMANDS[command](model, model, data, tmp_path)
    assert main([str(argument) for argument in arguments]) == 2
    assert "error: --gen-subset test: has no references" in capsys.readouterr().err
