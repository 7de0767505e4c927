"""Reports of batches whose loss or gradient is not a number: which sentences, and what to do."""

import logging
from typing import Any, Callable, Dict, List, Set, Tuple

import torch
from fairseq.distributed import FullyShardedDataParallel
from torch import Tensor

logger = logging.getLogger(__name__)

MOST_REPORTS = 20  # of a run
MOST_IDS = 50  # of a report; so many sentences at most are looked at one by one, too
ADVICE = "lower --lr, warm up longer, set --clip-norm (1.0), or look at these sentences"

Criterion = Callable[[Any, Dict[str, Any]], Tuple[Tensor, Any, Any]]


class NonfiniteReports:
    """Logs an error for each batch whose loss is NaN or infinite, up to a number of them.

    fairseq goes on from there as it always does: with a ``FloatingPointError``, or under ``--fp16``
    with a lower loss scale. It names no sentence.
    """

    def __init__(self, most: int = MOST_REPORTS) -> None:
        self.left = most
        self._update = -1
        self._taken: Set[Tuple[int, ...]] = set()  # batches of this update
        self._named = False  # whether one of them had such a loss

    def check(
        self,
        loss: Tensor,
        sample: Dict[str, Any],
        model: Any,
        criterion: Criterion,
        update: int,
        once: bool = False,
    ) -> None:
        """Report the batch if its loss is not finite.

        Costs the copy of a number and of the ids from the device.

        Args:
            loss: scalar.
            sample: the corrupted batch, with ``id`` int64 (B,).
            model, criterion: what gave the loss.
            update: number of updates before this one.
            once: a batch comes again in the same update only because its gradient was not finite:
                before its ``FloatingPointError`` fairseq repeats the update to find the layer.
        """
        finite = bool(loss.detach().isfinite())
        ids = tuple(sample["id"].tolist())
        if update != self._update:
            self._update, self._taken, self._named = update, set(), False
        repeated = once and ids in self._taken
        self._taken.add(ids)
        wanted = repeated and not self._named if finite else not repeated
        if not wanted or self.left <= 0:
            return
        self._named = not finite or self._named
        if finite:
            what = (
                f"the update's gradient is not finite, though the loss is {float(loss.detach())} "
            )
            what += _place(ids)
        else:
            what = _fault(loss, ids, sample, model, criterion)
        self._log(f"update {update + 1}: {what}")

    def check_validation(
        self, loss: Tensor, sample: Dict[str, Any], model: Any, criterion: Criterion
    ) -> None:
        """The same for a batch of the validation split, whose loss spoils the mean of the split."""
        if self.left > 0 and not bool(loss.detach().isfinite()):
            ids = tuple(sample["id"].tolist())
            self._log(f"validation: {_fault(loss, ids, sample, model, criterion)}")

    def _log(self, what: str) -> None:
        self.left -= 1
        logger.error(f"{what}; {ADVICE}")
        if not self.left:
            logger.error("such batches are not reported any more")


def _place(ids: Tuple[int, ...]) -> str:
    return f"on the batch of sentences {_listed(ids)} (places in the split, from 0)"


def _fault(
    loss: Tensor, ids: Tuple[int, ...], sample: Dict[str, Any], model: Any, criterion: Criterion
) -> str:
    cause = _cause(ids, sample, model, criterion)
    return f"the loss is {float(loss.detach())} {_place(ids)}; {cause}"


def _listed(ids: Tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:MOST_IDS]))
    return shown if len(ids) <= MOST_IDS else f"{shown}, ... ({len(ids)} in all)"


def _cause(ids: Tuple[int, ...], sample: Dict[str, Any], model: Any, criterion: Criterion) -> str:
    while hasattr(model, "module"):  # a wrapper for several processes: it would wait for the others
        if isinstance(model, FullyShardedDataParallel):
            return "under --ddp-backend fully_sharded no sentence can be looked at alone"
        model = model.module
    for name, parameter in model.named_parameters():
        if not bool(parameter.detach().isfinite().all()):
            return f"parameter {name} is not finite, so an earlier update has broken the model"
    rows, looked = culprits(sample, model, criterion), min(len(ids), MOST_IDS)
    of = "" if looked == len(ids) else f" of the first {looked}"
    if not rows:
        return f"none{of} has such a loss when it is alone and nothing is dropped out"
    if len(rows) == looked:
        return f"each{of} has such a loss when it is alone"
    return f"those{of} with such a loss when alone: {', '.join(str(ids[row]) for row in rows)}"


@torch.no_grad()
def culprits(sample: Dict[str, Any], model: Any, criterion: Criterion) -> List[int]:
    """Rows among the first ``MOST_IDS`` whose loss is not finite when they are alone.

    Args:
        sample: a corrupted batch.
        model: without wrappers; its dropout is switched off meanwhile.
        criterion: gives (loss, size, logs).
    """
    size, training = sample["target"].size(0), model.training
    model.eval()
    try:
        return [
            row
            for row in range(min(size, MOST_IDS))
            if not bool(criterion(model, _only(sample, row, size))[0].isfinite())
        ]
    finally:
        model.train(training)


def _only(value: Any, row: int, size: int) -> Any:
    """One row of a batch: of every tensor that has a row for each sentence."""
    if isinstance(value, Tensor):
        return value[row : row + 1] if value.dim() and value.size(0) == size else value
    if isinstance(value, dict):
        return {name: _only(part, row, size) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_only(part, row, size) for part in value))
    return value
