"""Run the tests on every Python, fairseq, torch and numpy that is claimed and that is here.

    make matrix
    make matrix ROWS='3.11 3.12' TESTS='tests/test_compat.py'

Each row has an environment of its own below ``.matrix``, made by ``scripts/environment.sh`` and then
changed as the row says. A row whose Python is not installed is left out and named. What was found is
kept in ``.matrix/results.json``, a row at a time, so a run can be continued; ``--page FILE`` puts the
table between the marks of that page.
"""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from tabulate import tabulate

from fairseq_gmlm.data.pages import write_into

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".matrix"

VERSIONS = """
import importlib.metadata as m, json, platform
names = ["ve-fairseq", "fairseq-fixed", "fairseq"]
have = {d.metadata["Name"].lower(): d.version for d in m.distributions() if d.metadata["Name"]}
fairseq = next((f"{n} {have[n]}" for n in names if n in have), "none")
import torch
print(json.dumps({"python": platform.python_version(), "fairseq": fairseq,
                  "torch": torch.__version__, "numpy": have["numpy"]}))
"""

# Run inside an environment: the lower bounds that hold there, but for torch's.
LOWEST = """
import importlib.metadata as m, json
from packaging.requirements import Requirement
extras = ["", "test", "plot", "fast"]
wanted = [Requirement(text) for text in m.requires("fairseq-gmlm")]
here = [r for r in wanted if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)]
print(json.dumps([f"{r.name}=={bound.version}" for r in here for bound in r.specifier
                  if bound.operator == ">=" and r.name != "torch"]))
"""


@dataclass(frozen=True)
class Row:
    """One environment.

    Attributes:
        name: of the row and of its folder.
        python: minor version.
        about: what the row is for.
        changes: arguments of pip that follow the usual installation.
        lowest: install the lowest version that setup.py allows of every dependency but torch and
            fairseq (whose versions are the other rows').
    """

    name: str
    python: str
    about: str
    changes: Tuple[str, ...] = ()
    lowest: bool = False


ROWS = (
    Row("3.11", "3.11", "what make installs"),
    Row("3.12", "3.12", "what make installs"),
    Row("3.10", "3.10", "the official fairseq, torch 2.2, numpy 1"),
    Row("3.10-torch2.1", "3.10", "the oldest torch", ("install torch==2.1.2",)),
    Row(
        "3.11-fixed",
        "3.11",
        "fairseq built from source, the newest numpy 1",
        (
            "uninstall -y ve-fairseq fairseq-fixed",
            "install fairseq-fixed==0.12.3.1",
            "install numpy<2",
        ),
    ),
    Row("3.11-lowest", "3.11", "the lowest version of each dependency", lowest=True),
)


def python_of(minor: str) -> Optional[str]:
    """An interpreter of a minor version, from the path or from pyenv; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [f"python{minor}", *sorted(map(str, pyenv.glob(f"{minor}.*/bin/python3")))]
    for place in places:
        # A shim of pyenv can be on the path and still refuse to run.
        try:
            done = subprocess.run(
                [place, "-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == minor:
            return place
    return None


def install(row: Row, python: str, log: Path) -> List[str]:
    """Make a row's environment; returns what a user would type for it.

    Raises:
        RuntimeError: a command failed; the log says why.
    """
    venv = FOLDER / row.name
    inside = str(venv / "bin" / "python")
    commands = [["sh", "scripts/environment.sh", str(venv), "test,plot,fast"]]
    commands += [[inside, "-m", "pip", *shlex.split(change)] for change in row.changes]
    shown = [f"make environment PYTHON=python{row.python}"]
    with log.open("w", encoding="utf-8") as stream:

        def run(command: List[str]) -> None:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHON": python},
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            if done.returncode:
                raise RuntimeError(f"{shlex.join(command)} ended with {done.returncode}; see {log}")

        for command in commands:
            run(command)
        if row.lowest:
            told = subprocess.run(
                [inside, "-c", LOWEST], capture_output=True, text=True, cwd=FOLDER
            )
            # With the project itself, so that pip also lowers what these do not fit.
            words = ["install", "-e", ".[test,plot,fast]", *json.loads(told.stdout)]
            commands.append([inside, "-m", "pip", *words])
            run(commands[-1])
    return shown + [shlex.join(["pip", *command[3:]]) for command in commands[1:]]


def outcome(report: Path) -> Dict[str, int]:
    """Counts of a JUnit report."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return {"passed": passed, "failed": failed, "skipped": counts["skipped"]}


def run_row(row: Row, python: str, tests: List[str]) -> Dict[str, Any]:
    """Install a row, run the tests, and tell what was found."""
    found: Dict[str, Any] = {"about": row.about, "date": datetime.date.today().isoformat()}
    try:
        found["install"] = install(row, python, FOLDER / f"{row.name}.install.log")
    except RuntimeError as error:
        return {**found, "error": str(error).replace(f"{ROOT}/", "")}
    inside = str(FOLDER / row.name / "bin" / "python")
    told = subprocess.run([inside, "-c", VERSIONS], capture_output=True, text=True, cwd=FOLDER)
    found.update(json.loads(told.stdout.splitlines()[-1]))
    check = subprocess.run([inside, "-m", "pip", "check"], capture_output=True, text=True)
    found["pip check"] = "clean" if check.returncode == 0 else check.stdout.strip()
    report = FOLDER / f"{row.name}.xml"
    report.unlink(missing_ok=True)
    words = [inside, "-m", "pytest", "-n", "auto", "--dist", "loadfile", f"--junitxml={report}"]
    with (FOLDER / f"{row.name}.log").open("w", encoding="utf-8") as stream:
        subprocess.run([*words, *tests], cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT)
    if not report.is_file():
        return {**found, "error": f"pytest left no report; see .matrix/{row.name}.log"}
    return {**found, **outcome(report), "tests": " ".join(tests) or "the whole suite"}


def table(results: Dict[str, Dict[str, Any]]) -> str:
    """Markdown: a row for each environment, and below it how each is installed."""
    keys = ("python", "fairseq", "torch", "numpy", "passed", "failed", "skipped", "date")
    head = ["row", "Python", *keys[1:], "tests"]
    lines = [
        [name, *(found.get(key, "-") for key in keys), found.get("error") or found.get("tests")]
        for name, found in results.items()
    ]
    text = [tabulate(lines, head, tablefmt="github", disable_numparse=True), ""]
    for name, found in results.items():
        text.append(f"**{name}** ({found['about']}); `pip check`: {found.get('pip check', '-')}")
        text += ["", "```", *found.get("install", []), "```", ""]
    return "\n".join(text)


def main(argv: Optional[List[str]] = None) -> int:
    """Run the rows; the status is the number of rows that did not pass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW",
                        help=f"some of: {', '.join(names)} (default: all)")  # fmt: skip
    parser.add_argument(
        "--tests", default="", help="arguments of pytest (default: the whole suite)"
    )
    parser.add_argument("--page", type=Path, help="page that gets the table")
    args = parser.parse_args(argv)
    FOLDER.mkdir(exist_ok=True)
    kept = FOLDER / "results.json"
    results = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    bad = 0
    for row in ROWS:
        if row.name not in args.rows:
            continue
        python = python_of(row.python)
        if python is None:
            print(f"matrix: {row.name}: no Python {row.python} with venv here", file=sys.stderr)
            continue
        print(f"matrix: {row.name}: {row.about}", file=sys.stderr)
        results[row.name] = found = run_row(row, python, shlex.split(args.tests))
        bad += bool(found.get("error") or found.get("failed"))
        kept.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    ordered = {name: results[name] for name in names if name in results}
    print(table(ordered))
    if args.page:
        write_into(args.page, "matrix", table(ordered))
    return bad


if __name__ == "__main__":
    sys.exit(main())
