"""YAML that people write: faults are named by file and key."""

from dataclasses import dataclass

import pytest

from fairseq_gmlm.data.records import known_names, names_of, read_yaml, record
from fairseq_gmlm.errors import UserError


@dataclass
class Pair:
    """Two fields, one with a default."""

    right: int
    left: int = 3


def test_a_record_is_read():
    assert names_of(Pair) == ["left", "right"]
    assert record(Pair, {"right": 1}, "x") == Pair(1, 3)
    given = {"left": 1}
    assert known_names(given, ["left"], "x") == given
    assert known_names(given, ["left"], "x") is not given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1], "x: expected names with values, found list"),
        ({"right": 1, "up": 2, 7: 1}, "x: unknown key '7'; known are left, right"),
        ({"left": 1}, "x: missing 1 required positional argument: 'right'"),
    ],
)
def test_what_is_wrong_is_said(given, message):
    with pytest.raises(UserError) as error:
        record(Pair, given, "x")
    assert str(error.value) == message


def test_files(tmp_path):
    path = tmp_path / "a.yaml"
    with pytest.raises(UserError, match=r"no recipe at .*a\.yaml"):
        read_yaml(path, "recipe")
    path.write_text("a: [1, 2]\n", "utf-8")
    assert read_yaml(path, "recipe") == {"a": [1, 2]}
    for bad in (b"a: [", b"\xff\xfe", b"!!python/object/apply:os.system ['true']"):
        path.write_bytes(bad)
        with pytest.raises(UserError, match=r"a\.yaml is not YAML"):
            read_yaml(path, "recipe")
