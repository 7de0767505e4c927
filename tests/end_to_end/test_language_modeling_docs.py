"""Every command of the page about language models is one that its parser accepts."""

import re
import shlex
from pathlib import Path

import pytest
from fairseq import options

from fairseq_gmlm.cli.main import build_parser
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language_modeling.md"


def commands():
    """Indented lines that begin with a command, with their continuations joined."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^    (?:echo .*\| )?(fairseq-(?:train|gmlm) .*)$", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words[:2]))
def test_a_documented_command_parses(words):
    if words[0] == "fairseq-gmlm":
        build_parser(words[1]).parse_args(words[1:])
        return
    at = words.index("--user-dir")
    rest = words[1:at] + words[at + 2 :]
    task = rest[rest.index("--task") + 1]
    parser = options.get_training_parser(task)
    args = options.parse_args_and_arch(parser, rest)
    assert args.arch == "gmlm_lm_base"


def test_there_are_commands():
    assert len(commands()) == 5


def options_named():
    """Options in the tables of the page."""
    return sorted(set(re.findall(r"`(--[a-z-]+)", PAGE.read_text(encoding="utf-8"))))


def test_every_option_named_is_one():
    line = "data --task language_modeling_gmlm --arch gmlm_lm --criterion gmlm_loss"
    parser = options.get_training_parser("language_modeling_gmlm")
    known = set(vars(options.parse_args_and_arch(parser, line.split())))
    known |= set(GMLMLanguageModelConfig.__dataclass_fields__)  # absent unless given
    for name in ("fill", "score"):
        full = build_parser(name)
        commands = next(a for a in full._actions if isinstance(a.choices, dict))
        known |= {action.dest for action in commands.choices[name]._actions}
    elsewhere = {"srcdict", "decode_strategy"}
    missing = [o for o in options_named() if o[2:].replace("-", "_") not in known | elsewhere]
    assert not missing
