"""The mean of several checkpoints' parameters."""

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import Tensor
from tqdm import tqdm

from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.errors import UserError


def _storage(tensor: Tensor) -> Tuple[int, Tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


class ParameterMean:
    """Running mean of parameters, as first value plus mean difference from it, in float64.

    Written that way, the mean of equal values is that value bit for bit, in any precision.
    """

    def __init__(self, name: str, parameters: Dict[str, Tensor]) -> None:
        self.name = name
        self.count = 1
        self.first = parameters
        self.differences = {
            key: torch.zeros(value.shape, dtype=torch.float64)
            for key, value in parameters.items()
            if value.is_floating_point()
        }
        self.storages = {key: [_storage(value)] for key, value in parameters.items()}

    def add(self, name: str, parameters: Dict[str, Tensor]) -> None:
        """Take in another checkpoint's parameters.

        Raises:
            UserError: naming both files and the first key whose presence or shape differs.
        """
        for key in [*self.first, *(key for key in parameters if key not in self.first)]:
            if key not in self.first or key not in parameters:
                has, lacks = (self.name, name) if key in self.first else (name, self.name)
                raise UserError(f"{has} holds {key}, {lacks} does not: average equal models only")
            ours, theirs = self.first[key], parameters[key]
            if ours.shape != theirs.shape:
                raise UserError(
                    f"{key} has shape {list(ours.shape)} in {self.name} and "
                    f"{list(theirs.shape)} in {name}: average equal models only"
                )
        self.count += 1
        for key, total in self.differences.items():
            first, other = self.first[key].double(), parameters[key].double()
            # An infinity minus itself is not a number, but it is no difference either.
            total += torch.where(first == other, torch.zeros_like(first), other - first)
        for key, value in parameters.items():
            self.storages[key].append(_storage(value))

    def result(self) -> Dict[str, Tensor]:
        """Means in the first checkpoint's precision; integers and flags are its own.

        Parameters that are one tensor in every checkpoint stay one tensor.
        """
        shared: Dict[Any, Tensor] = {}
        means: Dict[str, Tensor] = {}
        for key, first in self.first.items():
            if key not in self.differences:
                means[key] = first.clone()
                continue
            identity = tuple(self.storages[key]) if first.numel() else key
            if identity not in shared:
                mean = first.double() + self.differences[key] / self.count
                shared[identity] = mean.to(first.dtype)
            means[key] = shared[identity]
        return means


def average_checkpoints(paths: Sequence[Path]) -> Dict[str, Any]:
    """A checkpoint with the mean of the parameters and the rest of the one trained longest.

    The optimizer's state and stored moving averages are left out: they belong to none of the
    parameters any more.

    Raises:
        UserError: for unreadable files, and for models that differ in a key or a shape.
    """
    mean = None
    rest: Dict[str, Any] = {}
    most_updates = -1
    for path in tqdm(paths, desc="averaging", unit=" files", disable=None):
        state = load_checkpoint(path)
        parameters = state.pop("model")
        state.pop("last_optimizer_state", None)
        if mean is None:
            mean = ParameterMean(str(path), parameters)
        else:
            mean.add(str(path), parameters)
        updates = (state.get("optimizer_history") or [{}])[-1].get("num_updates", 0)
        if updates > most_updates:
            most_updates, rest = updates, state
    if mean is None:
        raise UserError("nothing to average: no checkpoint given")
    extra: Dict[str, Any] = dict(rest.get("extra_state") or {})
    for stale in ("ema", "ema_fp32_params"):
        extra.pop(stale, None)
    names: List[str] = [path.name for path in paths]
    return {**rest, "model": mean.result(), "extra_state": {**extra, "averaged_from": names}}
