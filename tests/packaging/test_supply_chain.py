"""What is installed, under which licence, and that no file of data can run code."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("fairseq_gmlm", "examples", "benchmarks", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
# Calls that run what a file says; torch.load and numpy.load are looked at more closely below.
FORBIDDEN = {
    *("eval", "exec", "compile", "pickle.load", "pickle.loads", "marshal.loads", "yaml.load"),
    *("yaml.unsafe_load", "yaml.full_load", "joblib.load", "dill.load", "shelve.open", "os.system"),
}


def calls(path):
    """Dotted names of all calls of a file, with their keywords and lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {k.arg: k.value for k in node.keywords}, node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_of_data_runs_code(path):
    for name, keywords, line in calls(path):
        where = f"{path.name}:{line}: {name}"
        assert name not in FORBIDDEN, where
        if name == "torch.load":
            # Below torch 2.4 the plugin's own unpickler, which knows plain data only, takes the place.
            safe = {k: ast.unparse(v) for k, v in keywords.items()}
            assert (
                safe.get("weights_only") == "True" or safe.get("pickle_module") == "plain_pickle"
            ), where
        if name in ("np.load", "numpy.load"):
            assert ast.unparse(keywords["allow_pickle"]) == "False", where
        if name.startswith("subprocess."):
            assert "shell" not in keywords, where


def test_what_is_installed_fits_together():
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_dependency_has_its_licence_on_the_page():
    page = (ROOT / "docs" / "licences.md").read_text("utf-8").lower().replace("_", "-")
    listed = dict(re.findall(r"^\| ([\w.-]+) +\| \S+ +\| (\S.*?) +\|", page, re.MULTILINE))
    names = {
        re.match(r"[\w.-]+", text).group().lower()
        for text in importlib.metadata.requires("fairseq-gmlm")
    }
    # Other builds of fairseq are for other Pythons; comet is not part of what make installs.
    names -= {"fairseq", "fairseq-fixed", "unbabel-comet"}
    assert names <= set(listed), names - set(listed)
    assert "unknown" not in {listed[name] for name in names}
