"""What is compared: the YAML file, read and checked."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Dict, List, Optional

import yaml

from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class SystemSpec:
    """One row of the table.

    Attributes:
        name: what the row is called.
        path: checkpoint of fairseq (``checkpoint_best.pt``).
        options: decoding options by their names in fairseq or this plugin (``beam``,
            ``iter_decode_max_iter``, ``decode_strategy``, ...).
        reranker: checkpoint of an autoregressive model that chooses among the candidates.
    """

    name: str
    path: str
    options: Dict[str, Any] = field(default_factory=dict)
    reranker: Optional[str] = None


@dataclass(frozen=True)
class ComparisonSpec:
    """A whole comparison.

    Attributes:
        data: data-bin that all systems share.
        systems: the rows.
        split: which part of the data.
        references: raw reference file; default: the ``SPLIT.raw.LANG`` that ``prepare`` leaves
            beside the data.
        batch_size: sentences per batch when throughput is measured.
        latency_sentences: sentences timed one by one; they are spread evenly over the split.
        repeats: how often throughput is measured; the median is reported.
        threads: threads of torch; 0: as many as torch takes by itself.
    """

    data: str
    systems: List[SystemSpec]
    split: str = "test"
    references: Optional[str] = None
    batch_size: int = 32
    latency_sentences: int = 100
    repeats: int = 1
    threads: int = 1


def _check(kind: type, given: Any, where: str) -> Dict[str, Any]:
    """``given`` as a dictionary whose keys are fields of ``kind``."""
    if not isinstance(given, dict):
        raise UserError(f"{where}: expected names with values, found {type(given).__name__}")
    known = {item.name for item in fields(kind)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise UserError(
            f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )
    return given


def read_spec(path: Path) -> ComparisonSpec:
    """Read a comparison.

    Raises:
        UserError: no such file, no YAML, a key that nobody reads, a missing or repeated name.
    """
    if not path.is_file():
        raise UserError(f"no comparison file at {path}")
    try:
        given = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}") from error
    given = dict(_check(ComparisonSpec, given, str(path)))
    rows = given.pop("systems", None)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: 'systems' must be a list with at least one system")
    systems = []
    for number, row in enumerate(rows, 1):
        where = f"{path}: system {number}"
        row = _check(SystemSpec, row, where)
        for key in ("name", "path"):
            if not row.get(key):
                raise UserError(f"{where} has no {key!r}")
        systems.append(SystemSpec(**row))
    names = [system.name for system in systems]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"{path}: two systems are called {repeated!r}")
    if "data" not in given:
        raise UserError(f"{path}: 'data' must name a data-bin")
    return ComparisonSpec(systems=systems, **given)
