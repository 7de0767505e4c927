"""A recipe: what is prepared, trained, distilled and compared, read from YAML."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_gmlm.data.records import known_names, names_of, read_yaml, record
from fairseq_gmlm.errors import UserError

DATA = ("raw", "distilled")


@dataclass(frozen=True)
class SystemRecipe:
    """One way to train.

    Attributes:
        options: ``fairseq-train`` options that differ from the recipe's ``body`` and ``train``.
        data: ``raw`` or ``distilled``.
        start: ``teacher`` begins with the teacher's weights, ``none`` from scratch; the name of
            another system goes on with its trainings, seed by seed, as if they had not ended.
        seeds: it is trained once with each.
        average: number of newest kept checkpoints that are averaged; 0: the best one is taken.
    """

    options: Dict[str, Any]
    data: str = "distilled"
    start: str = "teacher"
    seeds: List[int] = field(default_factory=lambda: [1])
    average: int = 0


@dataclass(frozen=True)
class Recipe:
    """A whole experiment.

    Attributes:
        languages: source and target.
        text: file prefixes of train, valid and test, within the folder of ``--text``.
        prepare: options of ``fairseq-gmlm prepare``.
        body: options of every model: width, layers, heads.
        train: options of every training.
        teacher: the autoregressive teacher (its ``data`` is always raw, its ``start`` none).
        distill: options of ``fairseq-gmlm distill``.
        systems: what is trained besides, by name.
        compare: keys of a comparison; its rows name a system in place of a path.
        download: where the text is had, for people.
    """

    languages: Tuple[str, str]
    text: Dict[str, str]
    prepare: Dict[str, Any]
    body: Dict[str, Any]
    train: Dict[str, Any]
    teacher: SystemRecipe
    systems: Dict[str, SystemRecipe]
    distill: Dict[str, Any] = field(default_factory=dict)
    compare: Dict[str, Any] = field(default_factory=dict)
    download: str = ""


def flags(options: Dict[str, Any]) -> List[str]:
    """Options as words; True is a flag, False and None leave the option out.

    >>> flags({"lr": 0.1, "share-all-embeddings": True, "best": None})
    ['--lr', '0.1', '--share-all-embeddings']
    """
    words: List[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if value is not True:
            words.append(str(value))
    return words


def _system(given: Any, where: str) -> SystemRecipe:
    made = record(SystemRecipe, given, where)
    if made.data not in DATA:
        raise UserError(f"{where}: data must be one of {', '.join(DATA)}, not {made.data!r}")
    if not made.seeds or len(set(made.seeds)) != len(made.seeds):
        raise UserError(f"{where}: seeds must be different numbers, at least one: {made.seeds}")
    return made


def _check_start(name: str, systems: Dict[str, SystemRecipe], where: str) -> None:
    """A start is known, and a training that is continued was made with the same seeds and data."""
    system, earlier = systems[name], list(systems)[: list(systems).index(name)]
    if system.start in ("none", "teacher"):
        return
    if system.start not in earlier:
        known = ", ".join(["none", "teacher", *earlier])
        raise UserError(
            f"{where}: start must be one of {known} (a system above it), not {system.start!r}"
        )
    before = systems[system.start]
    if before.data != system.data or not set(system.seeds) <= set(before.seeds):
        raise UserError(
            f"{where}: goes on with {system.start}, so it needs its data ({before.data}) and seeds "
            f"among its seeds {before.seeds}"
        )
    if not system.average:
        # Without an improvement there is no checkpoint_best.pt of its own.
        raise UserError(f"{where}: goes on with {system.start}, so it needs average: 1 or more")


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        UserError: no such file, no YAML, an unknown or missing key, a row that names no system.
    """
    given = known_names(read_yaml(path, "recipe"), names_of(Recipe), str(path))
    given["teacher"] = _system(
        {"data": "raw", "start": "none", **(given.get("teacher") or {})}, f"{path}: teacher"
    )
    given["systems"] = {
        name: _system(system, f"{path}: systems: {name}")
        for name, system in (given.get("systems") or {}).items()
    }
    recipe = record(Recipe, given, str(path))
    for name in recipe.systems:
        _check_start(name, recipe.systems, f"{path}: systems: {name}")
    for row in recipe.compare.get("systems", []):
        for name in {row.get("system"), row.get("reranker", "teacher")}:
            if name != "teacher" and name not in recipe.systems:
                raise UserError(f"{path}: compare: {row.get('name')}: no system {name!r}")
    return recipe
