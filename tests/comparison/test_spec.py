"""The YAML file of a comparison."""

from pathlib import Path

import pytest

from fairseq_gmlm.comparison.reading import read_spec
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
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
        ("data: b\nsystems: [{name: a, path: x, paths: [y]}]\n", "give 'path', or 'paths'"),
        ("data: b\nsystems: [{name: a, paths: y}]\n", "'paths' must be a list"),
        ("data: b\nsystems: [{name: a, path: x, options: 3}]\n", "'options' must be names"),
        ("data: b\nsystems: [{name: a, path: x, engine: onnx}]\n", "'engine' is fairseq or"),
        ("data: b\nsystems: [{name: a, path: x, compute_type: int8}]\n", "needs 'engine: ct"),
        (
            "data: b\nsystems: [{name: a, path: x, engine: ctranslate2, reranker: y}]\n",
            "'reranker' belongs to models with length candidates",
        ),
        ("data: b\nsystems: [{name: a, path: x, training: {hours: 3}}]\n", "unknown key 'hours'"),
        ("data: b\nsystems: [{name: a, path: x, training: {seconds: x}}]\n", "must be a number"),
        ("data: b\nbatch_size: 0\nsystems: [{name: a, path: x}]\n", "'batch_size' must be"),
        ("data: b\nthreads: -1\nsystems: [{name: a, path: x}]\n", "'threads' must be"),
        ("data: b\nmemory: 1\nsystems: [{name: a, path: x}]\n", "'memory' must be true or"),
        ("data: b\nbatch_sizes: 8\nsystems: [{name: a, path: x}]\n", "'batch_sizes' must be"),
        ("data: b\ndevice: tpu\nsystems: [{name: a, path: x}]\n", "'device' is cpu or cuda"),
        ("data: b\nbaseline: z\nsystems: [{name: a, path: x}]\n", "no system is called 'z'"),
        ("- 1\n", "expected names with values, found list"),
        ("data: [\n", "is not YAML"),
        ("data: !!python/object/apply:os.system ['true']\nsystems: []\n", "is not YAML"),
    ],
)
def test_names_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        read_spec(write(tmp_path, text))


def test_seeds_engines_and_training(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "data: bin\nbatch_sizes: [1, 8]\nsystems:\n"
        "- {name: a, paths: [a.pt, b.pt], training: {seconds: 60, stages: 2}}\n"
        "- {name: c, path: c.pt, engine: ctranslate2, compute_type: int8}\n",
    )
    spec = read_spec(path)
    first, second = spec.systems
    assert first.checkpoints == ["a.pt", "b.pt"] and first.path == "a.pt"
    assert first.seed(1).checkpoints == ["b.pt"]
    assert first.training == {"seconds": 60, "stages": 2}
    assert (second.engine, second.compute_type) == ("ctranslate2", "int8")
    assert second.checkpoints == ["c.pt"]
    assert spec.throughput_sizes == [1, 8] and spec.shown_size == 8


def test_sizes_that_are_shown() -> None:
    assert ComparisonSpec("d", [], batch_size=4).throughput_sizes == [4]
    assert ComparisonSpec("d", [], batch_size=8, batch_sizes=[8, 32]).shown_size == 8


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no comparison file at .*none\.yaml"):
        read_spec(tmp_path / "none.yaml")
