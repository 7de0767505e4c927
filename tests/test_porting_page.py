"""Every option and every test that docs/porting_from_padir.md names is there."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from fairseq import options

import fairseq_gmlm  # noqa: F401  (registers the plugin)
from fairseq_gmlm.models.config import GMLMTransformerConfig

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "porting_from_padir.md"
TEXT = PAGE.read_text("utf-8")


def known_options() -> set:
    """Options of fairseq's training and generation commands with this plugin's parts chosen."""
    # Model options have no default on the command line, so that architectures can set them.
    found = {"--" + item.name.replace("_", "-") for item in fields(GMLMTransformerConfig)}
    for task in ("translation_gmlm", "pretraining_gmlm"):
        parser = options.get_training_parser(default_task=task)
        line = ["data", "--task", task, "--arch", "gmlm_transformer", "--criterion", "gmlm_loss"]
        args = options.parse_args_and_arch(parser, line)
        found |= {"--" + name.replace("_", "-") for name in vars(args)}
    parser = options.get_generation_parser(default_task="translation_gmlm")
    args = options.parse_args_and_arch(parser, ["data", "--task", "translation_gmlm"])
    return found | {"--" + name.replace("_", "-") for name in vars(args)}


def test_options_exist() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", TEXT))
    assert len(named) > 60
    assert named - known_options() == set()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"tests/[\w/]+\.py::\w+", TEXT))))
def test_tests_exist(name: str) -> None:
    path, function = name.split("::")
    assert f"def {function}(" in (ROOT / path).read_text("utf-8")


def test_all_eleven_quirks_have_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*`tests/[\w/]+\.py::\w+` \|$", TEXT, re.MULTILINE)
    assert rows == [str(number) for number in range(1, 12)]
