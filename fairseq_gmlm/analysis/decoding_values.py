"""Decoding options given by name: from a YAML file, from ``--set name=value``, checked."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

import yaml
from fairseq.dataclass.configs import GenerationConfig

from fairseq_gmlm.errors import UserError


def read_values(file: Optional[str], settings: Sequence[str]) -> Dict[str, Any]:
    """Options of ``--options FILE.yaml``, then those of ``--set name=value``, which win.

    Raises:
        UserError: no such file, no mapping, or a setting without ``=``.
    """
    found: Dict[str, Any] = {}
    if file is not None:
        try:
            given = yaml.safe_load(Path(file).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UserError(f"--options {file}: cannot be read ({error})") from error
        if not isinstance(given, dict):
            raise UserError(
                f"--options {file}: expected names with values, found {type(given).__name__}"
            )
        found.update(given)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set {setting}: expected name=value, as in iter_decode_max_iter=3")
        try:
            found[name.strip().lstrip("-").replace("-", "_")] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"--set {setting}: the value cannot be read ({error})") from error
    return found


def generation_options(values: Dict[str, Any], task: Any, seed: int) -> Namespace:
    """fairseq's generation defaults with ``values`` in their place.

    A task that takes a seed of decoding gets ``seed``, unless ``values`` has one.

    Raises:
        UserError: a name that neither fairseq's generation nor the task reads.
    """
    defaults = {k: v.default for k, v in GenerationConfig.__dataclass_fields__.items()}
    cfg = task.cfg
    known = set(defaults) | set(cfg.keys() if hasattr(cfg, "keys") else vars(cfg))
    unknown = sorted(set(values) - known)
    if unknown:
        raise UserError(f"no decoding option is called {unknown[0]!r} (--options, --set)")
    if "decode_seed" in known:
        values = {"decode_seed": seed, **values}
    return Namespace(**{**defaults, **values})
