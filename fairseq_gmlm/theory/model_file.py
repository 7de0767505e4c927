"""Ising models on disk: JSON with ``N``, ``couplings`` ("i,j": value) and ``fields``."""

import json
import math
from pathlib import Path
from typing import Any, Dict, Optional, Tuple, Union

import torch

from fairseq_gmlm.errors import UserError
from fairseq_gmlm.theory.distributions import IsingModel


def read_ising(path: Union[str, Path]) -> Tuple[IsingModel, Optional[int]]:
    """The model in ``path``, and the file's ``seed`` if it tells one.

    Every pair of sites is a parameter; pairs not listed have coupling 0.

    ``couplings`` maps "i,j" to a number, or is an N by N list; a pair may be written both ways
    round if both say the same.

    Raises:
        UserError: the file, the key and the value at fault.
    """
    data = _read_object(path)
    n = data.get("N")
    for key in ("couplings", "fields"):
        if key not in data:
            raise UserError(f'{path}: key "{key}" is missing; a model needs couplings and fields')
    fields = data["fields"]
    if not isinstance(fields, list) or not fields:
        raise UserError(f"{path}: fields must be a list of numbers, one for each site")
    n = len(fields) if n is None else n
    if type(n) is not int or n < 1:
        raise UserError(f"{path}: N is {n!r}; it must be a positive whole number")
    if len(fields) != n:
        raise UserError(f"{path}: fields has {len(fields)} numbers but N is {n}; give one a site")
    values = [_number(path, f"fields[{i}]", value) for i, value in enumerate(fields)]
    couplings = _couplings(path, data["couplings"], n)
    return IsingModel(couplings, torch.tensor(values, dtype=torch.double)), data.get("seed")


def _read_object(path: Union[str, Path]) -> Dict[str, Any]:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{path}: cannot be read ({reason}); give a JSON model file") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not JSON, line {error.lineno} column {error.colno}: {error.msg}"
        ) from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds a {type(data).__name__}, expected an object with couplings")
    return data


def _number(path: Union[str, Path], name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"{path}: {name} is {value!r}; it must be a finite number")
    return float(value)


def _couplings(path: Union[str, Path], given: Any, n: int) -> torch.Tensor:
    table = torch.zeros(n, n).double()
    if isinstance(given, dict):
        entries = {}
        for key, value in given.items():
            entries[_pair(path, key, n)] = _number(path, f'couplings["{key}"]', value)
    elif isinstance(given, list):
        if len(given) != n or any(not isinstance(row, list) or len(row) != n for row in given):
            raise UserError(f"{path}: couplings must be {n} rows of {n} numbers, as N is {n}")
        entries = {
            (i, j): _number(path, f"couplings[{i}][{j}]", given[i][j])
            for i in range(n)
            for j in range(n)
        }
    else:
        raise UserError(
            f"{path}: couplings is a {type(given).__name__}; "
            'give {"i,j": value} or a matrix of rows'
        )
    for (i, j), value in entries.items():
        if i == j and value != 0:
            raise UserError(f"{path}: coupling {i},{i} is {value}; a spin has none with itself")
        other = entries.get((j, i), value)
        if other != value:
            raise UserError(
                f"{path}: couplings are asymmetric: {i},{j} is {value} but {j},{i} is {other}; "
                "make them equal or leave one out"
            )
        table[i, j] = table[j, i] = value
    return table


def _pair(path: Union[str, Path], key: str, n: int) -> Tuple[int, int]:
    parts = key.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
        raise UserError(f'{path}: coupling "{key}" does not name a pair; write it as "0,1"')
    i, j = int(parts[0]), int(parts[1])
    if max(i, j) >= n:
        raise UserError(f'{path}: coupling "{key}" names a site outside 0 to {n - 1} (N is {n})')
    return i, j
