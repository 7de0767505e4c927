"""What is installed, under which licence, and that no file of data can run code."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

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


def offence(name, keywords):
    """What is wrong with a call; None if nothing is."""
    if name in FORBIDDEN:
        return name
    given = {k: ast.unparse(v) for k, v in keywords.items()}
    # Below torch 2.4 the plugin's own unpickler, which knows plain data only, takes the place.
    plain = given.get("weights_only") == "True" or given.get("pickle_module") == "plain_pickle"
    if name == "torch.load" and not plain:
        return "torch.load without weights_only"
    if name in ("np.load", "numpy.load") and given.get("allow_pickle") != "False":
        return "numpy.load that may unpickle"
    if name.startswith("subprocess.") and "shell" in given:
        return "a shell"
    return None


def test_no_file_of_data_runs_code():
    assert len(SOURCES) > 150
    found = [
        f"{path.relative_to(ROOT)}:{line}: {offence(name, keywords)}"
        for path in SOURCES
        for name, keywords, line in calls(path)
        if offence(name, keywords)
    ]
    assert not found, found


def test_offences_are_seen(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text(
        "yaml.load(f)\ntorch.load(p)\nnp.load(p)\nsubprocess.run(c, shell=True)\neval(x)\n"
        "torch.load(p, weights_only=True)\nyaml.safe_load(f)\n"
    )
    assert [line for name, words, line in calls(bad) if offence(name, words)] == [1, 2, 3, 4, 5]


def test_what_is_installed_fits_together():
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    faults = done.stdout.splitlines() if done.returncode else []
    if "fairseq-fixed" in {d.metadata["Name"] for d in importlib.metadata.distributions()}:
        # The same code as the wheel that setup.py asks for on this platform, built from source.
        wheel = "requires ve-fairseq, which is not installed."
        faults = [line for line in faults if not line.endswith(wheel)]
    assert not faults, faults


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
