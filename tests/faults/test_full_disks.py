"""Full disks, folders that cannot be written and missing dictionaries: one line, and no half file."""

import os
import resource
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch
import yaml
from helpers import forks, kept
from helpers.small import preparing, write_text

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.checkpoints import save_checkpoint
from fairseq_gmlm.data.files import atomic_write

LIMIT = 600  # bytes that a file may have


def writing(command: str, small: Dict[str, Path], data: Path, out: Path) -> List[str]:
    """Arguments of a command that writes the file or folder ``out``."""
    gmlm, teacher = small["gmlm_transformer"], small["transformer"]
    common = ["--data", data, "--cpu"]
    spec = data.parent / "systems.yaml"
    system = {"name": "gmlm", "path": str(gmlm), "options": {"iter_decode_max_iter": 1}}
    spec.write_text(
        yaml.safe_dump({"data": str(data), "latency_sentences": 1, "systems": [system]}), "utf-8"
    )
    words: Dict[str, List[object]] = {
        "distill": ["distill", "--path", teacher, *common, "--destdir", out, "--beam", 1,
                    "--max-len-b", 4, "--threads", 1],
        "average": ["average", "--inputs", gmlm, gmlm, "--output", out],
        "warm-start": ["warm-start", "--path", teacher, "--output", out],
        "import-cmlm": ["import-cmlm", "--path", small["cmlm_transformer"], "--data", data,
                        "--output", out],
        "analyze": ["analyze", "--path", gmlm, *common, "--json", out, "--no-alignment",
                    "--bootstrap", 10, "--sentences", 2],
        "compare": ["compare", spec, "--json", out],
        "trace": ["trace", "--path", gmlm, *common, "--html", out, "--ids", "0"],
    }  # fmt: skip
    return [str(word) for word in words[command]]


COMMANDS = ["distill", "average", "warm-start", "import-cmlm", "analyze", "trace", "compare"]


def limited() -> None:
    """A limit on the size of files fails in the same calls as a disk without space."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_told_and_a_re_run_completes(
    command: str, small: Dict[str, Path], small_data: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    arguments = writing(command, small, small_data, made)
    ended = forks.run(arguments, limited)
    assert ended.code == 2, ended.text
    message = ended.text.rstrip().split("\n")[-1]
    assert message.startswith(f"fairseq-gmlm {command}: error: {tmp_path}")
    assert message.endswith("File too large")
    assert not made.exists() and not list(tmp_path.glob("*.tmp"))
    assert forks.run(arguments).code == 0
    assert made.exists()


@pytest.mark.parametrize("command", [*COMMANDS, "prepare"])
@pytest.mark.parametrize("place", ["file/sub", "file/made"])
def test_a_folder_that_cannot_be_made_is_named(
    command: str, place: str, small: Dict[str, Path], small_data: Path, tmp_path: Path, capsys: Any
) -> None:
    """Below a file nobody can write, not even root."""
    (tmp_path / "file").write_text("", "utf-8")
    out = tmp_path / place / "made"
    if command == "prepare":
        arguments = preparing(write_text(tmp_path), out)
    else:
        arguments = writing(command, small, small_data, out)
    assert main(arguments) == 2
    message = capsys.readouterr().err.strip().split("\n")[-1]
    assert message.startswith(f"fairseq-gmlm {command}: error: ")
    assert str(tmp_path / "file") in message
    assert (tmp_path / "file").read_text("utf-8") == ""


@pytest.mark.parametrize("command", ["fill", "score"])
def test_a_full_standard_output_is_told(command: str) -> None:
    path = kept.FOLDER / "0.1.0" / "gmlm_lm.pt"
    text = path.parent / "templates.txt" if command == "fill" else path.parent / "dict.txt"
    arguments = [command, "--path", path, "--data", path.parent, "--cpu", "--input", text]

    def full() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    ended = forks.run(arguments, full)
    assert ended.code == 2, ended.text
    assert "No space left on device" in ended.text and "Traceback" not in ended.text


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(pipe) as stream:
        stream.write("told")
    assert os.read(reader, 10) == b"told" and pipe.is_fifo()
    os.close(reader)
    with pytest.raises(OSError, match="No space left on device") as error:
        save_checkpoint({"model": {"w": torch.zeros(100_000)}}, Path("/dev/full"))
    assert error.value.filename == "/dev/full"


def missing(path: Path) -> None:
    path.unlink()


def damaged(path: Path) -> None:
    path.write_bytes(b"\xff\xfe no count\n")


@pytest.mark.parametrize("change", [missing, damaged])
@pytest.mark.parametrize("command", ["distill", "import-cmlm", "analyze", "trace"])
def test_a_dictionary_that_is_missing_or_damaged_is_named(
    command: str, change: Callable[[Path], None], small: Dict[str, Path], small_data: Path,
    tmp_path: Path, capsys: Any,
) -> None:  # fmt: skip
    data = Path(shutil.copytree(small_data, tmp_path / "data"))
    change(data / "dict.de.txt")
    assert main(writing(command, small, data, tmp_path / "made")) == 2
    message = capsys.readouterr().err.strip().split("\n")[-1]
    assert str(data) in message, message
    assert change is damaged or "dict.de.txt" in message
    assert not (tmp_path / "made").exists()
