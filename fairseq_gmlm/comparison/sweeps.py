"""Sweeps: one row of the file becomes a row for each combination of values."""

import itertools
import re
from typing import Any, Dict, List

from fairseq_gmlm.errors import UserError

_PLACE = re.compile(r"\{(\w+)\}")


def _named(template: str, values: Dict[str, Any], where: str) -> str:
    """The name of one combination: its places filled, or its values put behind it.

    ``{passes}`` stands for ``iter_decode_max_iter`` + 1.
    """
    if not template:
        return ""
    if not _PLACE.search(template):
        return ", ".join([template, *(f"{name}={value}" for name, value in values.items())])
    known = dict(values)
    if _whole(known.get("iter_decode_max_iter")):
        known["passes"] = known["iter_decode_max_iter"] + 1

    def fill(match: "re.Match[str]") -> str:
        if match[1] not in known:
            raise UserError(
                f"{where}: the name has {match[0]}, but the sweep is over {', '.join(values)}"
            )
        return str(known[match[1]])

    return _PLACE.sub(fill, template)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def expand(row: Dict[str, Any], where: str) -> List[Dict[str, Any]]:
    """Rows without ``sweep``, the last option changing fastest.

    >>> [r["name"] for r in expand({"name": "{beam}", "sweep": {"beam": [1, 5]}}, "")]
    ['1', '5']

    Raises:
        UserError: a sweep that is not lists by option, an option that is given twice, a place in
            the name that no value fills.
    """
    if "sweep" not in row:
        return [row]
    sweep = row["sweep"]
    if not isinstance(sweep, dict) or not sweep:
        raise UserError(f"{where}: 'sweep' must give lists of values by option, not {sweep!r}")
    fixed = row.get("options") or {}
    for name, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{where}: sweep: {name!r} must be a list of values, not {values!r}")
        if name in fixed:
            raise UserError(f"{where}: {name!r} is both in 'options' and in 'sweep'")
    rows = []
    for combination in itertools.product(*sweep.values()):
        values = dict(zip(sweep, combination))
        single = {key: value for key, value in row.items() if key != "sweep"}
        single["name"] = _named(str(row.get("name", "")), values, where)
        single["options"] = {**fixed, **values}
        rows.append(single)
    return rows
