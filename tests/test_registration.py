"""What importing the package does, and what it does not."""

import json
import subprocess
import sys
from typing import List

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from helpers.commands import PACKAGE

import fairseq_gmlm
from fairseq_gmlm.models.config import ARCHITECTURES
from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel


def python(code: str) -> subprocess.CompletedProcess:
    """Run some code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )


def test_everything_is_registered() -> None:
    """fairseq#2802 and #5026: only tasks/ and models/ are imported by fairseq itself."""
    assert "translation_gmlm" in TASK_REGISTRY
    assert "gmlm_loss" in CRITERION_REGISTRY
    assert MODEL_REGISTRY["gmlm_transformer"] is GMLMTransformerModel
    for name in ("gmlm_transformer", *ARCHITECTURES):
        assert ARCH_MODEL_REGISTRY[name] is GMLMTransformerModel
        assert name in ARCH_CONFIG_REGISTRY


@pytest.mark.parametrize("way", ["fairseq_gmlm", "fairseq_gmlm/", "./fairseq_gmlm", str(PACKAGE)])
def test_import_user_module_registers_and_may_be_repeated(way: str) -> None:
    code = f"""
import argparse, json
from fairseq import utils
from fairseq.tasks import TASK_REGISTRY
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
assert "translation_gmlm" not in TASK_REGISTRY
for _ in range(2):
    utils.import_user_module(argparse.Namespace(user_dir={way!r}))
print(json.dumps(["translation_gmlm" in TASK_REGISTRY, "gmlm_loss" in CRITERION_REGISTRY,
                  "gmlm_transformer_tiny" in ARCH_MODEL_REGISTRY]))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True, True]


def test_a_plugin_imported_by_name_accepts_its_own_user_dir() -> None:
    """jind11/TitleStylist#4."""
    done = python(
        "import argparse, fairseq_gmlm\n"
        "from fairseq import utils\n"
        f"utils.import_user_module(argparse.Namespace(user_dir={str(PACKAGE)!r}))\n"
    )
    assert done.returncode == 0, done.stderr


def test_importing_prints_nothing_and_compiles_nothing() -> None:
    """thu-coai/DA-Transformer#7: no compiler runs at import."""
    code = """
import os, subprocess, sys
class Refuse(subprocess.Popen):
    def __init__(self, args, *a, **k):
        # torch and numpy may ask ldconfig and lscpu about the machine.
        name = os.path.basename(args.split()[0] if isinstance(args, str) else args[0])
        if any(part in name for part in ("cc", "++", "clang", "ninja", "make")):
            raise SystemExit("a compiler was started: %r" % (args,))
        super().__init__(args, *a, **k)
subprocess.Popen = Refuse
import fairseq_gmlm
names = {name.split(".")[0] for name in sys.modules}
bad = names & {"matplotlib", "ctranslate2", "comet", "tensorboard", "pandas"}
assert not bad, bad
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


PURE: List[str] = ["masking", "counter_rng", "losses", "vocabulary", "decoding.schedules",
                   "decoding.remasking", "decoding.chain", "decoding.strategies"]  # fmt: skip


def test_pure_parts_work_without_fairseq() -> None:
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "fairseq":
            raise ModuleNotFoundError("No module named 'fairseq'", name="fairseq")
sys.meta_path.insert(0, Absent())
import importlib.util
original = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "fairseq" else original(name, *a)
for name in {PURE!r}:
    __import__("fairseq_gmlm." + name)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_version_is_a_string_of_numbers() -> None:
    assert all(part.isdigit() for part in fairseq_gmlm.__version__.split(".")[:2])
