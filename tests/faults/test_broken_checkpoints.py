"""Broken checkpoints, and good ones for other data, are named by every command that takes one."""

import io
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch
import yaml
from helpers import kept
from helpers.commands import call

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.errors import UserError

Command = Callable[[Path, Path, Path, Path], List[object]]


def _compare(spec: Dict[str, Any], data: Path, out: Path) -> List[object]:
    path = out / "systems.yaml"
    system = {"name": "x", **{name: str(value) for name, value in spec.items()}}
    path.write_text(yaml.safe_dump({"data": str(data), "systems": [system]}), "utf-8")
    return ["compare", path, "--json", out / "made"]


# Name -> arguments, from a checkpoint that is broken, one that is not, a data-bin, a folder.
COMMANDS: Dict[str, Command] = {
    "distill": lambda bad, good, data, out: [
        "distill", "--path", bad, "--data", data, "--destdir", out / "made", "--cpu"],
    "compare": lambda bad, good, data, out: _compare({"path": bad}, data, out),
    "compare, reranker": lambda bad, good, data, out: _compare(
        {"path": good, "reranker": bad}, data, out),
    "fill": lambda bad, good, data, out: ["fill", "--path", bad, "--data", data, "--cpu"],
    "score": lambda bad, good, data, out: [
        "score", "--path", bad, "--data", data, "--cpu", "--gen-subset", "test"],
    "analyze": lambda bad, good, data, out: [
        "analyze", "--path", bad, "--data", data, "--cpu", "--json", out / "made"],
    "analyze, teacher": lambda bad, good, data, out: [
        "analyze", "--path", good, "--teacher", bad, "--data", data, "--cpu", "--json",
        out / "made"],
    "trace": lambda bad, good, data, out: [
        "trace", "--path", bad, "--data", data, "--cpu", "--ids", "0", "--html", out / "made"],
    "average": lambda bad, good, data, out: [
        "average", "--inputs", good, bad, "--output", out / "made"],
    "average, folder": lambda bad, good, data, out: [
        "average", "--last", 1, "--checkpoint-dir", bad.parent, "--output", out / "made"],
    "warm-start": lambda bad, good, data, out: [
        "warm-start", "--path", bad, "--output", out / "made"],
    "import-cmlm": lambda bad, good, data, out: [
        "import-cmlm", "--path", bad, "--data", data, "--output", out / "made"],
}  # fmt: skip


class Hostile:
    """Unpickling this makes a folder."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trap",)


def _flipped(whole: bytes, place: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :]


def _weights(whole: bytes) -> int:
    """A place among the weights: two bytes into the largest record but the options."""
    with zipfile.ZipFile(io.BytesIO(whole)) as records:
        tensors = [record for record in records.infolist() if "/data/" in record.filename]
    record = max(tensors, key=lambda each: each.file_size)
    lengths = struct.unpack_from("<HH", whole, record.header_offset + 26)  # of name and padding
    return record.header_offset + 30 + sum(lengths) + 2


BREAKING: Dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "last byte missing": lambda whole: whole[:-1],
    "empty": lambda whole: b"",
    "text": lambda whole: b"These are not the weights that you are looking for.\n",
    "bit of a weight": lambda whole: _flipped(whole, _weights(whole)),
    "bit of the options": lambda whole: _flipped(whole, whole.index(b"gmlm_transformer") + 3),
}


def broken(kind: str, good: Path, folder: Path) -> Path:
    """A checkpoint that cannot be used."""
    path = folder / "checkpoint7.pt"
    if kind == "folder":
        path.mkdir()
    elif kind == "hostile":
        torch.save({"model": {"w": Hostile()}}, path)
    elif kind != "missing":
        path.write_bytes(BREAKING[kind](good.read_bytes()))
    return path


KINDS = [*BREAKING, "folder", "hostile", "missing"]


@pytest.mark.parametrize(
    ("command", "kind"),
    # What is not in a folder is not looked for there.
    [(c, k) for c in COMMANDS for k in KINDS if (c, k) != ("average, folder", "missing")],
)
def test_a_broken_file_is_named(
    command: str, kind: str, small: Dict[str, Path], small_data: Path, tmp_path: Path, capsys: Any,
    monkeypatch: Any,
) -> None:  # fmt: skip
    (tmp_path / "bad").mkdir()
    monkeypatch.chdir(tmp_path)
    path = broken(kind, small["gmlm_transformer"], tmp_path / "bad")
    before = sorted(tmp_path.rglob("*"))
    arguments = COMMANDS[command](path, small["gmlm_transformer"], small_data, tmp_path)
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    message = printed.err.strip().split("\n")[-1]
    assert message.startswith(f"fairseq-gmlm {command.split(',')[0]}: error: ")
    assert str(path) in message and "Traceback" not in printed.err
    assert printed.out == ""
    left = {p.name for p in set(tmp_path.rglob("*")) - set(before)}
    assert left <= {"systems.yaml"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "missing"])
def test_init_from_names_a_broken_file(
    kind: str, small: Dict[str, Path], small_data: Path, tmp_path: Path
) -> None:
    path = broken(kind, small["gmlm_transformer"], tmp_path)
    with pytest.raises(UserError, match=r"checkpoint7\.pt: "):
        call(
            "train", small_data, "--task", "translation_gmlm", "--arch", "gmlm_transformer_tiny",
            "--criterion", "gmlm_loss", "--optimizer", "adam", "--cpu", "--max-update", 1,
            "--init-from", path, "--save-dir", tmp_path / "made", "--max-tokens", 100,
        )  # fmt: skip
    assert not (tmp_path / "made" / "checkpoint_last.pt").exists()


@pytest.mark.parametrize("kind", ["cut", "empty", "text", "folder"])
def test_fairseqs_own_command_ends_with_an_error_after_naming_the_file(
    kind: str, small: Dict[str, Path], small_data: Path, tmp_path: Path, caplog: Any
) -> None:
    """The message is torch's, which names no file; the line before it is fairseq's, which does."""
    path = broken(kind, small["gmlm_transformer"], tmp_path)
    faults = (RuntimeError, EOFError, OSError, pickle.UnpicklingError)
    with caplog.at_level("INFO"), pytest.raises(faults):
        call("generate", small_data, "--path", path, "--task", "translation_gmlm", "--cpu")
    last = [record.getMessage() for record in caplog.records][-1]
    assert str(path) in last


def other_words(data: Path, folder: Path) -> Path:
    """The same data-bin with two words exchanged in its dictionaries."""
    shutil.copytree(data, folder)
    for path in folder.glob("dict*.txt"):
        lines = path.read_text("utf-8").split("\n")
        path.write_text("\n".join([lines[1], lines[0], *lines[2:]]), "utf-8")
    return folder


def other_languages(data: Path, folder: Path) -> Path:
    """The same data-bin called fr-it."""
    folder.mkdir()
    for path in data.iterdir():
        name = path.name.replace("en", "fr").replace("de.", "it.")
        shutil.copyfile(path, folder / name)
    return folder


SYSTEMS = ["compare", "score", "analyze", "trace"]


@pytest.mark.parametrize("command", SYSTEMS)
@pytest.mark.parametrize("change", [other_words, other_languages])
def test_other_data_are_told(
    command: str, change: Callable[[Path, Path], Path], small: Dict[str, Path], small_data: Path,
    tmp_path: Path, capsys: Any,
) -> None:  # fmt: skip
    data = change(small_data, tmp_path / "other")
    good = small["gmlm_transformer"]
    assert main([str(a) for a in COMMANDS[command](good, good, data, tmp_path)]) == 2
    message = capsys.readouterr().err.strip().split("\n")[-1]
    if change is other_words:
        assert "source dictionary" in message and "--srcdict/--tgtdict" in message
    else:
        assert str(data) in message and ("dict.en.txt" in message or "en" in message)
    assert not (tmp_path / "made").exists()


def test_a_language_model_of_another_dictionary_is_told(tmp_path: Path, capsys: Any) -> None:
    path = kept.FOLDER / "0.1.0" / "gmlm_lm.pt"
    (tmp_path / "dict.txt").write_text(
        (path.parent / "dict.txt").read_text("utf-8") + "bird 1\n", "utf-8"
    )
    for command in ("fill", "score"):
        assert main([command, "--path", str(path), "--data", str(tmp_path), "--cpu"]) == 2
        message = capsys.readouterr().err.strip().split("\n")[-1]
        assert str(path) in message and "dictionary" in message, message


def test_a_teacher_of_other_languages_is_told(
    small: Dict[str, Path], small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    data = other_languages(small_data, tmp_path / "other")
    teacher = small["transformer"]
    assert main([str(a) for a in COMMANDS["distill"](teacher, teacher, data, tmp_path)]) == 2
    assert "the teacher translates en to de, but" in capsys.readouterr().err
