"""Count the tests of each kind.

    python scripts/tests_by_kind.py [--page docs/reliability.md]

A test that hypothesis feeds is a property; for the others their place tells.
"""

import argparse
import collections
import contextlib
import io
import sys
from pathlib import Path
from typing import Any, List, Optional

import pytest
from tabulate import tabulate

from fairseq_gmlm.data.pages import write_into

ROOT = Path(__file__).resolve().parents[1]
PROPERTY = "properties, each over many generated cases (hypothesis)"
# The first place that fits counts.
KINDS = (
    ("tests/faults", "faults: broken files, full disks, killed workers, Ctrl-C"),
    ("tests/test_kept_checkpoints.py", "checkpoints kept from earlier versions"),
    ("tests/test_known_faults.py", "public reports (docs/known_faults.md)"),
    ("tests/cli/test_fuzz.py", "generated lines of every kind through the commands"),
    ("tests/cli", "commands"),
    ("tests/end_to_end", "fairseq's commands with the plugin, end to end"),
    ("tests/criterions/test_gradients.py", "gradients against finite differences in float64"),
    ("tests/criterions/test_random_training.py", "a thousand updates on random data"),
    ("tests/packaging", "installation, licences, no code out of data"),
    ("tests/test_documentation.py", "documents: commands run, options and links checked"),
    ("tests/benchmarks", "benchmarks, at a size for a test"),
    ("tests/theory", "theory against enumeration and the reference values"),
    ("tests/scoring", "scores against enumeration"),
    ("tests/decoding", "decoding, against plain references in the test and exact values"),
    ("tests", "other parts alone: exact values, independent references, messages"),
)


def kind_of(item: Any) -> str:
    """The kind of a collected test."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return PROPERTY
    place = Path(item.path).relative_to(ROOT).as_posix()
    return next(kind for start, kind in KINDS if place.startswith(start))


class Counting:
    """A plugin of pytest that counts what is collected."""

    def __init__(self) -> None:
        self.counts: collections.Counter = collections.Counter()

    def pytest_collection_finish(self, session: Any) -> None:
        """Called once, after all deselection."""
        self.counts.update(kind_of(item) for item in session.items)


def table(counts: "collections.Counter[str]") -> str:
    """Markdown, with the sum."""
    order = [PROPERTY, *(kind for _, kind in KINDS)]
    rows: List[List[Any]] = [[kind, counts[kind]] for kind in order if counts[kind]]
    rows.append(["all", sum(counts.values())])
    return tabulate(rows, ["kind", "tests"], tablefmt="github")


def main(argv: Optional[List[str]] = None) -> int:
    """Collect, count, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, help="page that gets the table")
    args = parser.parse_args(argv)
    counting, said = Counting(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT),
             "-c", str(ROOT / "pyproject.toml"), str(ROOT / "tests")], [counting],
        )  # fmt: skip
    if code:
        print(said.getvalue(), file=sys.stderr)
        return int(code)
    print(table(counting.counts))
    if args.page:
        write_into(args.page, "tests", table(counting.counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
