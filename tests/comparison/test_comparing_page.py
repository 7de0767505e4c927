"""docs/comparing.md: its file is read, its commands are parsed, no key is left out."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import yaml

from fairseq_gmlm.cli.main import build_parser
from fairseq_gmlm.comparison.reading import TRAINING, read_spec
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "comparing.md").read_text("utf-8")


def blocks(language: str):
    """Code blocks of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_file_is_read(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    path = tmp_path / "systems.yaml"
    path.write_text(text, "utf-8")
    spec = read_spec(path)
    names = [row.name for row in spec.systems]
    assert names[2:4] == ["CMLM, 4 passes", "CMLM, 10 passes"]
    assert "GMLM, iter_decode_max_iter=9, iter_decode_with_beam=3" in names
    assert len(names) == 1 + 1 + 2 + 6 + 1
    assert [len(row.checkpoints) for row in spec.systems] == [1] * 4 + [2] * 6 + [1]


def test_no_key_is_left_out() -> None:
    (text,) = blocks("yaml")
    given = yaml.safe_load(text)
    assert set(given) == {item.name for item in fields(ComparisonSpec)}
    rows = {key for row in given["systems"] for key in row}
    assert rows == {item.name for item in fields(SystemSpec)} | {"sweep"}
    assert all(name in text for name in TRAINING)


def test_commands_are_parsed_and_name_every_report() -> None:
    found = [block for block in blocks("bash") if block.startswith("fairseq-gmlm")]
    assert len(found) == 3
    used = set()
    for block in found:
        words = shlex.split(block.replace("\\\n", " "))
        args = build_parser("compare").parse_args(words[1:])
        assert args.config == "systems.yaml"
        used |= {name for name, value in vars(args).items() if value}
    known = set(vars(build_parser("compare").parse_args(["compare", "x"])))
    assert used == known
