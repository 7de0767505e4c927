"""fairseq_gmlm.data.files: whole files or none."""

import os
import subprocess
import sys

import pytest

from fairseq_gmlm.data.files import (
    atomic_write,
    copy_file,
    first_difference,
    folder_lock,
    plain_os_errors,
    read_json,
    sha256_of,
    write_json,
)
from fairseq_gmlm.errors import UserError


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as stream:
        stream.write("new")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_text_keeps_carriage_returns(tmp_path):
    with atomic_write(tmp_path / "file") as stream:
        stream.write("a\rb\nc")
    assert (tmp_path / "file").read_bytes() == b"a\rb\nc"


def test_json_round_trip_and_damage(tmp_path):
    write_json(tmp_path / "x.json", {"ä": [1, None]})
    assert read_json(tmp_path / "x.json") == {"ä": [1, None]}
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match=r"x\.json: not JSON"):
        read_json(tmp_path / "x.json")


def test_copy_and_hash(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    copy_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"abc"
    assert sha256_of(tmp_path / "b") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_a_folder_is_locked_against_other_processes(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from fairseq_gmlm.data.files import folder_lock\n"
        "with folder_lock(pathlib.Path(sys.argv[1])): pass\n"
    )
    with (
        folder_lock(tmp_path),
        pytest.raises(UserError, match="another process is working in it"),
        folder_lock(tmp_path),
    ):
        pass
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == 0


def test_first_difference_names_key_and_both_values():
    assert first_difference({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "b: 2, now 3"
    assert first_difference({"a": 1, "c": 0}, {"a": 1}) == "c: 0, now None"
    assert first_difference({"a": 1}, {"a": 1}) is None


def test_os_errors_become_one_line_with_the_file(tmp_path):
    missing = tmp_path / "no" / "file"

    def write():
        with plain_os_errors(), atomic_write(missing):
            pass

    with pytest.raises(UserError, match=rf"^{missing}: No such file or directory$"):
        write()
