"""The loop: predict, choose, remask, until nothing changes or the passes are used up."""

from dataclasses import dataclass, field, replace
from typing import Callable, List, Optional, Protocol

import torch
from torch import Tensor

from fairseq_gmlm.decoding.pruning import Pruning
from fairseq_gmlm.decoding.state import ChainState, Prediction
from fairseq_gmlm.decoding.strategies.base import Strategy


class Conditional(Protocol):
    """p(token at every position | what is visible), for the rows that are still running."""

    def __call__(self, state: ChainState, where: Tensor, step: int) -> Prediction:
        """Predict at ``where``, bool (R, T)."""

    def select(self, sentences: Tensor) -> "Conditional":
        """The same for a part of the sentences."""


@dataclass
class PassRecord:
    """One pass, for histories and traces.

    Attributes:
        rows: int64 (R,), rows of the full batch that took part.
        shown: int64 (R, T), what the model saw.
        predicted: bool (R, T), where its prediction was read (nowhere in rows that had settled).
        draft: int64 (R, T), the draft after the pass, before anything was taken back.
        scores: float (R, T), log-probabilities of the draft.
        tokens: int64 (R, T), what the model sees next.
    """

    rows: Tensor
    shown: Tensor
    predicted: Tensor
    draft: Tensor
    scores: Tensor
    tokens: Tensor


@dataclass
class ChainResult:
    """Outcome of a chain: the full batch, or what pruning left of it.

    Attributes:
        tokens: int64 (R, T), drafts at the end.
        scores: float (R, T), log-probabilities at free positions.
        free: bool (R, T); dropped: bool (R, T), positions left out of the output.
        passes: int64 (R,), decoder runs that each row took part in.
        rows: int64 (R,), numbers of the rows in the full batch, ascending.
        history: one record a pass, if asked for.
    """

    tokens: Tensor
    scores: Tensor
    free: Tensor
    dropped: Tensor
    passes: Tensor
    rows: Tensor
    history: List[PassRecord] = field(default_factory=list)


BeforePass = Callable[[ChainState, int], ChainState]


def run_chain(
    conditional: Conditional,
    state: ChainState,
    strategy: Strategy,
    passes: int,
    candidates: int = 1,
    early_stop: bool = True,
    may_settle: Optional[Tensor] = None,
    keep_history: bool = False,
    before_pass: Optional[BeforePass] = None,
    pruning: Optional[Pruning] = None,
) -> ChainResult:
    """Run a chain to its end.

    A row whose draft no longer changes is frozen; a sentence leaves the batch when all of its
    candidates are. That costs one synchronisation with the device per pass, and only with
    ``early_stop``.

    Args:
        conditional: the model, or any stand-in.
        state: the start, R = candidates * sentences rows.
        strategy: what to predict and what to take back.
        passes: most decoder runs, at least 1.
        candidates: rows per sentence.
        early_stop: stop rows that have settled.
        may_settle: bool (R,), rows that can settle (default: all): a row that samples cannot.
        keep_history: record every pass.
        before_pass: user's hook, may change the state before a pass.
        pruning: which candidates go on after a few passes (default: all).

    Returns:
        :class:`ChainResult`, rows in the order of the start.
    """
    if passes < 1:
        raise ValueError(f"a chain needs at least one pass, not {passes}")
    outcome, taken = state, torch.zeros_like(state.rows)
    settled = torch.zeros_like(state.rows, dtype=torch.bool)
    history: List[PassRecord] = []
    kept, together = None, candidates  # rows that pruning kept; rows per sentence before it
    frozen = False  # whether any row of the running batch has settled
    for step in range(passes):
        if before_pass is not None:
            state = before_pass(state, step)
        where = strategy.where(state)
        prediction = conditional(state, where, step)
        before, state = state, replace(state, shown=state.tokens)
        after = strategy.update(state, prediction, step, passes)
        taken.index_add_(0, state.rows, torch.ones_like(state.rows))
        if frozen:
            after = _freeze(before, after, settled)
        if keep_history:
            predicted = where & ~settled[:, None]
            draft = torch.where(predicted, prediction.tokens, state.draft)
            history.append(
                PassRecord(state.rows, state.tokens, predicted, draft, after.scores, after.tokens)
            )
        if early_stop:
            now = strategy.finished(state, after)
            settled = settled | (now if may_settle is None else now & may_settle[state.rows])
        state = after
        if step + 1 == passes:
            break
        if pruning is not None and step + 1 == pruning.after:
            outcome = _merge(outcome, state)
            kept = pruning.best(outcome, together)
            index = pruning.among(kept, state.rows, together)
            state, settled, candidates = state.select(index), settled[index], pruning.keep
        if not early_stop:
            continue
        running = ~settled.view(-1, candidates).all(1)
        left, done = torch.stack([running.sum(), settled.sum()]).tolist()
        frozen = done > (running.numel() - left) * candidates
        if left == running.numel():
            continue
        outcome = _merge(outcome, state)
        if left == 0:
            break
        sentences = running.nonzero().squeeze(1)
        rows = (sentences[:, None] * candidates).add(
            torch.arange(candidates, device=sentences.device)
        )
        rows = rows.flatten()
        state, settled = state.select(rows), settled[rows]
        conditional = conditional.select(sentences)
    outcome = strategy.finalize(_merge(outcome, state))
    if pruning is not None:
        kept = pruning.best(outcome, together) if kept is None else kept
        outcome, taken = outcome.select(kept), taken[kept]
    return ChainResult(
        outcome.draft, outcome.scores, outcome.free, outcome.dropped, taken, outcome.rows, history
    )


def _freeze(before: ChainState, after: ChainState, settled: Tensor) -> ChainState:
    """Settled rows keep what they had."""
    for name in ("tokens", "shown", "draft", "scores", "pending"):
        value = torch.where(settled[:, None], getattr(before, name), getattr(after, name))
        setattr(after, name, value)
    if after.total is not None and before.total is not None:
        after.total = torch.where(settled[:, None, None], before.total, after.total)
    return after


def _merge(full: ChainState, part: ChainState) -> ChainState:
    """Write the rows of ``part`` back into the full batch."""
    if part.rows.numel() == full.rows.numel():
        return part
    for name in ("shown", "draft", "scores"):
        value = getattr(full, name).index_copy(0, part.rows, getattr(part, name))
        setattr(full, name, value)
    if (
        part.total is not None
    ):  # the full batch has one too, from the pass that all rows took part in
        full.total = full.total.index_copy(0, part.rows, part.total)
    return full
