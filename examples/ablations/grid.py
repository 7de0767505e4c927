"""A grid of trainings and decodings, read from YAML."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_gmlm.data.records import read_yaml, record
from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class Training:
    """One way to train; run once for each seed.

    Attributes:
        name: of the row.
        data: key of the grid's ``data``.
        options: ``fairseq-train`` options that differ from the grid's ``train``.
        decodings: names of the decodings that share this training.
    """

    name: str
    data: str
    decodings: List[str]
    options: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A difference that the report shows, seed by seed: ``b`` minus ``a``.

    Attributes:
        name: what is compared.
        a, b: training and decoding.
    """

    name: str
    a: Tuple[str, str]
    b: Tuple[str, str]


@dataclass(frozen=True)
class Grid:
    """All cells.

    Attributes:
        data: data-bins by name.
        trainings, decodings: what differs; decoding options by their Python names.
        train: options of every training.
        decode: options of every decoding.
        seeds: each training is run with each.
        teacher: checkpoint that ``{teacher}`` stands for in options.
        split: decoded part of the data.
        batch_size: sentences decoded at a time.
        threads: of torch.
        comparisons: differences for the report.
    """

    data: Dict[str, str]
    trainings: List[Training]
    decodings: Dict[str, Dict[str, Any]]
    train: Dict[str, Any] = field(default_factory=dict)
    decode: Dict[str, Any] = field(default_factory=dict)
    seeds: Tuple[int, ...] = (1, 2)
    teacher: str = ""
    split: str = "test"
    batch_size: int = 64
    threads: int = 1
    comparisons: List[Comparison] = field(default_factory=list)

    def train_options(self, training: Training, seed: int) -> Dict[str, Any]:
        """``fairseq-train`` options of one training."""
        merged = {**self.train, **training.options, "seed": seed}
        return {
            name: value.replace("{teacher}", self.teacher) if isinstance(value, str) else value
            for name, value in merged.items()
        }

    def decode_options(self, name: str) -> Dict[str, Any]:
        """Decoding options of one cell; a ``reranker`` may be among them."""
        return {**self.decode, **self.decodings[name]}


def digest(options: Any) -> str:
    """Short hash of options, to see whether a finished cell was made with others."""
    text = json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def read_grid(path: Path, overrides: Dict[str, Any]) -> Grid:
    """Read and check a grid.

    Args:
        path: YAML file.
        overrides: values that win over the file's: ``data`` (merged) and ``teacher``.

    Raises:
        UserError: no such file, unknown keys, or names that stand for nothing.
    """
    given = read_yaml(path, "grid")
    if not isinstance(given, dict):
        raise UserError(f"{path} holds no grid")
    given = dict(given)
    given["data"] = {**given.get("data", {}), **overrides.get("data", {})}
    if overrides.get("teacher"):
        given["teacher"] = overrides["teacher"]
    given["trainings"] = [
        record(Training, item, f"{path}: training {number}")
        for number, item in enumerate(given.get("trainings", []), 1)
    ]
    given["comparisons"] = [
        record(Comparison, item, f"{path}: comparison {number}")
        for number, item in enumerate(given.get("comparisons", []), 1)
    ]
    grid: Grid = record(Grid, given, str(path))
    names = [training.name for training in grid.trainings]
    if not names or len(set(names)) < len(names):
        raise UserError(f"{path}: trainings must be there, each with a name of its own")
    for training in grid.trainings:
        if training.data not in grid.data:
            raise UserError(f"{path}: training {training.name!r}: no data called {training.data!r}")
        for name in training.decodings:
            if name not in grid.decodings:
                raise UserError(f"{path}: training {training.name!r}: no decoding called {name!r}")
    cells = {(t.name, d) for t in grid.trainings for d in t.decodings}
    for comparison in grid.comparisons:
        for side in (comparison.a, comparison.b):
            if tuple(side) not in cells:
                raise UserError(f"{path}: comparison {comparison.name!r}: no cell {side!r}")
    return grid


def describe(grid: Grid) -> Dict[str, Any]:
    """The grid as plain values, for the results' folder."""
    return asdict(grid)
