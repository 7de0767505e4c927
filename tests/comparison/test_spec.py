"""The YAML file of a comparison."""

from pathlib import Path

import pytest

from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec, read_spec
from fairseq_gmlm.errors import UserError


def write(folder: Path, text: str) -> Path:
    """A comparison file with ``text``."""
    path = folder / "systems.yaml"
    path.write_text(text, "utf-8")
    return path


def test_reads_systems_and_defaults(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "data: bin\nthreads: 2\nsystems:\n"
        "- {name: a, path: a.pt}\n- {name: b, path: b.pt, options: {beam: 5}, reranker: a.pt}\n",
    )
    assert read_spec(path) == ComparisonSpec(
        data="bin",
        threads=2,
        systems=[
            SystemSpec("a", "a.pt"),
            SystemSpec("b", "b.pt", options={"beam": 5}, reranker="a.pt"),
        ],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: bin\n", "'systems' must be a list"),
        ("data: bin\nsystems: []\n", "'systems' must be a list"),
        ("systems: [{name: a, path: a.pt}]\n", "'data' must name"),
        ("data: b\nsystems: [{name: a}]\n", "system 1 has no 'path'"),
        ("data: b\nsystems: [{name: a, path: x, beam: 5}]\n", "system 1: unknown key 'beam'"),
        ("data: b\nbatch: 3\nsystems: [{name: a, path: x}]\n", "unknown key 'batch'"),
        ("data: b\nsystems: [{name: a, path: x}, {name: a, path: y}]\n", "two systems"),
        ("- 1\n", "expected names with values, found list"),
        ("data: [\n", "is not YAML"),
        ("data: !!python/object/apply:os.system ['true']\nsystems: []\n", "is not YAML"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        read_spec(write(tmp_path, text))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no comparison file at .*none\.yaml"):
        read_spec(tmp_path / "none.yaml")
