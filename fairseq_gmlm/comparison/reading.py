"""The YAML file of a comparison, read and checked."""

from pathlib import Path
from typing import Any, Dict, List

from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.comparison.sweeps import expand
from fairseq_gmlm.data.records import known_names, names_of, read_yaml
from fairseq_gmlm.errors import UserError

ENGINES = ("fairseq", "ctranslate2")
DEVICES = ("cpu", "cuda")
# What the checkpoints themselves need not say; see SystemSpec.training.
TRAINING = ("updates", "seconds", "stages")
_POSITIVE = ("batch_size", "latency_sentences", "repeats", "bootstrap_samples", "length_buckets")
_COUNTS = ("threads", "throughput_sentences")
_FLAGS = ("oracle_length", "memory")


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_values(given: Dict[str, Any], where: str) -> None:
    """Refuse numbers and flags of a comparison that mean nothing."""
    for names, least in ((_POSITIVE, 1), (_COUNTS, 0)):
        for name in names:
            if name in given and not _whole(given[name], least):
                raise UserError(
                    f"{where}: {name!r} must be a whole number of at least {least}, "
                    f"not {given[name]!r}"
                )
    for name in _FLAGS:
        if not isinstance(given.get(name, False), bool):
            raise UserError(f"{where}: {name!r} must be true or false, not {given[name]!r}")
    sizes = given.get("batch_sizes", [])
    if not isinstance(sizes, list) or not all(_whole(size, 1) for size in sizes):
        raise UserError(f"{where}: 'batch_sizes' must be a list of whole numbers, not {sizes!r}")
    if given.get("device", "cpu") not in DEVICES:
        raise UserError(f"{where}: 'device' is {' or '.join(DEVICES)}, not {given['device']!r}")


def _system(row: Dict[str, Any], where: str) -> SystemSpec:
    """One row, after its sweep was expanded."""
    if not row.get("name"):
        raise UserError(f"{where} has no 'name'")
    if "path" in row and "paths" in row:
        raise UserError(f"{where}: give 'path', or 'paths' for several seeds, but not both")
    paths = row.get("paths")
    if paths is not None:
        if not isinstance(paths, list) or not paths or not all(isinstance(p, str) for p in paths):
            raise UserError(f"{where}: 'paths' must be a list of checkpoints, not {paths!r}")
        row["path"] = paths[0]
    if not row.get("path"):
        raise UserError(f"{where} has no 'path'")
    row["options"] = row.get("options") or {}
    if not isinstance(row["options"], dict):
        raise UserError(f"{where}: 'options' must be names with values, not {row['options']!r}")
    training = known_names(row.get("training") or {}, TRAINING, f"{where}: training")
    for name, value in training.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise UserError(f"{where}: training: {name!r} must be a number, not {value!r}")
    row["training"] = training
    if row.get("engine", "fairseq") not in ENGINES:
        raise UserError(f"{where}: 'engine' is {' or '.join(ENGINES)}, not {row['engine']!r}")
    if row.get("engine") == "ctranslate2" and row.get("reranker"):
        raise UserError(f"{where}: 'reranker' belongs to models with length candidates")
    if row.get("compute_type") and row.get("engine") != "ctranslate2":
        raise UserError(f"{where}: 'compute_type' needs 'engine: ctranslate2'")
    return SystemSpec(**row)


def _systems(rows: Any, path: Path) -> List[SystemSpec]:
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: 'systems' must be a list with at least one system")
    known = sorted([*names_of(SystemSpec), "sweep"])
    systems = []
    for number, row in enumerate(rows, 1):
        where = f"{path}: system {number}"
        row = known_names(row, known, where)
        systems += [_system(single, where) for single in expand(row, where)]
    names = [system.name for system in systems]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f"{path}: two systems are called {repeated!r}")
    return systems


def read_spec(path: Path) -> ComparisonSpec:
    """Read a comparison.

    Raises:
        UserError: no such file, no YAML, a key that nobody reads, a missing or repeated name, a
            value of the wrong kind.
    """
    given = known_names(read_yaml(path, "comparison file"), names_of(ComparisonSpec), str(path))
    systems = _systems(given.pop("systems", None), path)
    if "data" not in given:
        raise UserError(f"{path}: 'data' must name a data-bin")
    _check_values(given, str(path))
    baseline = given.get("baseline")
    names = [system.name for system in systems]
    if baseline is not None and baseline not in names:
        raise UserError(f"{path}: no system is called {baseline!r}, which 'baseline' names")
    return ComparisonSpec(systems=systems, **given)
