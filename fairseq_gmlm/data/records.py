"""YAML files that people write: read, and every name in them checked to be one that is read."""

from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Sequence

import yaml

from fairseq_gmlm.errors import UserError


def read_yaml(path: Path, what: str) -> Any:
    """Content of a YAML file.

    Args:
        path: the file.
        what: what it should hold, for the message.

    Raises:
        UserError: no such file, or no YAML.
    """
    if not path.is_file():
        raise UserError(f"no {what} at {path}")
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}") from error


def names_of(kind: type) -> List[str]:
    """Fields of a dataclass, sorted."""
    return sorted(item.name for item in fields(kind))


def known_names(given: Any, known: Sequence[str], where: str) -> Dict[str, Any]:
    """``given`` as a dictionary.

    Raises:
        UserError: it is none, or has a name that is not in ``known``.
    """
    if not isinstance(given, dict):
        raise UserError(f"{where}: expected names with values, found {type(given).__name__}")
    unknown = sorted(str(key) for key in set(given) - set(known))
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
    return dict(given)


def record(kind: type, given: Any, where: str) -> Any:
    """A dataclass from a dictionary.

    Raises:
        UserError: it is no dictionary, or has unknown or lacks needed names.
    """
    values = known_names(given, names_of(kind), where)
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{where}: {str(error).split('__init__() ')[-1]}") from error
