"""Weighted pseudolikelihood in closed form: value, gradient and Hessian.

For an exponential family both losses of the notes' section 1.1 are signed sums of
log-partition functions over groups of states,

    joint:    -log p(x_K | x_-K)               = log Z(x_-K) - log Z(x)
    product:  -sum_{i in K} log p(x_i | x_-K)  = sum_i [log Z(x_-K) - log Z(x_-K, x_i)]

with Z(group) = sum of exp<theta, F> over the states of the group, so one class serves both. The
gradient of log Z is the mean of F in the group and its Hessian the covariance of F there.
"""

from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

import torch
from torch import LongTensor, Tensor

from fairseq_gmlm.theory.conditionals import ConditionalTable, observed_tables, site_view
from fairseq_gmlm.theory.distributions import PairwiseField
from fairseq_gmlm.theory.mask_laws import MaskLaw

LOSSES = ("joint", "product")
_CHUNK = 2**22  # feature entries held at once


@dataclass
class Groups:
    """``weight[r] * log Z(states[r])``.

    Attributes:
        states: ``(R, B)`` numbers of the states in each group.
        weight: ``(R,)``, of either sign.
        offset: ``(R, B)`` added to the logits (log p(K | x) of an adaptive law), or None.
    """

    states: LongTensor
    weight: Tensor
    offset: Optional[Tensor] = None

    def logits(self, logits: Tensor) -> Tensor:
        """Entries ``(R, B)`` of the logits ``(S,)`` with the offset added."""
        chosen = logits[self.states]
        return chosen if self.offset is None else chosen + self.offset

    def chunks(self, width: int) -> Iterator["Groups"]:
        """Pieces whose features (``width`` a state) fit in memory."""
        rows = max(1, _CHUNK // (width * self.states.shape[1]))
        for start in range(0, len(self.states), rows):
            cut = slice(start, start + rows)
            offset = None if self.offset is None else self.offset[cut]
            yield Groups(self.states[cut], self.weight[cut], offset)


class PseudolikelihoodObjective:
    """The loss of a family on weighted (state, block) pairs, as a function of its parameters.

    Args:
        family: any member of the family (its parameters are not read).
        law: the mask law that drew the blocks.
        states: ``(T,)`` numbers of states.
        blocks: ``(T,)`` numbers of blocks in ``law``.
        weights: ``(T,)``; they are divided by their sum.
        loss: ``"joint"`` or ``"product"``.
        plain_conditional: drop log p(K | x) of an adaptive law, as code that forgets it would;
            biased when the mask depends on what it hides (notes, section 1.5).
        penalty: adds ``penalty / 2 * |theta|^2``.

    Raises:
        ValueError: an unknown loss, or pairs of unequal number.
    """

    def __init__(
        self,
        family: PairwiseField,
        law: MaskLaw,
        states: LongTensor,
        blocks: LongTensor,
        weights: Optional[Tensor] = None,
        loss: str = "joint",
        plain_conditional: bool = False,
        penalty: float = 0.0,
    ) -> None:
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is unknown: choose one of {', '.join(LOSSES)}")
        if states.shape != blocks.shape or states.dim() != 1 or not len(states):
            raise ValueError(
                f"{tuple(states.shape)} states and {tuple(blocks.shape)} blocks; "
                "expected two equally long vectors that are not empty"
            )
        weights = torch.ones(len(states)).double() if weights is None else weights.double()
        self.features = family.features()
        self.penalty = penalty
        self.groups: List[Groups] = []
        space = family.space
        for table, seen in observed_tables(space, law, states, blocks, weights / weights.sum()):
            offset = table.log_mask_probabilities(law, space.num_states)
            if plain_conditional:
                offset = None
            self._add(table, seen, offset, loss, space.alphabet_size)

    def _add(
        self,
        table: ConditionalTable,
        seen: Tensor,
        offset: Optional[Tensor],
        loss: str,
        alphabet_size: int,
    ) -> None:
        if loss == "joint":
            self.groups.append(Groups(table.states, seen.sum(1), offset))
            self._add_seen(table.states[..., None], seen, offset)
            return
        self.groups.append(Groups(table.states, table.size * seen.sum(1), offset))
        for position in range(table.size):

            def split(values: Tensor, at: int = position) -> Tensor:
                return site_view(values, table.size, at, alphabet_size)

            part = None if offset is None else split(offset)
            self._add_seen(split(table.states), split(seen).sum(-1), part)

    def _add_seen(self, states: LongTensor, seen: Tensor, offset: Optional[Tensor]) -> None:
        """Subtract log Z of what was seen: groups ``(R, G, B)`` with weights ``(R, G)``."""
        used = seen > 0
        offset = None if offset is None else offset.reshape(states.shape)[used]
        self.groups.append(Groups(states[used], -seen[used], offset))

    def value(self, theta: Tensor) -> float:
        """Mean loss in nats at ``theta (P,)``."""
        logits = self.features @ theta
        total = sum((g.weight @ g.logits(logits).logsumexp(-1)).item() for g in self.groups)
        return total + self.penalty / 2 * (theta @ theta).item()

    def gradient(self, theta: Tensor) -> Tensor:
        """Gradient ``(P,)`` of the mean loss."""
        return self.features.T @ self._state_weights(theta) + self.penalty * theta

    def hessian(self, theta: Tensor) -> Tensor:
        """Hessian ``(P, P)`` of the mean loss: the weighted covariances of F in the groups."""
        logits = self.features @ theta
        second = self.features.T @ (self._state_weights(theta)[:, None] * self.features)
        for whole in self.groups:
            if whole.states.shape[1] == 1:  # one state has no covariance
                part = self.features[whole.states[:, 0]]
                second = second - part.T @ (whole.weight[:, None] * part)
                continue
            for group in whole.chunks(self.features.shape[1]):
                inside = torch.softmax(group.logits(logits), -1)
                mean = torch.bmm(inside[:, None], self.features[group.states])[:, 0]
                second = second - mean.T @ (group.weight[:, None] * mean)
        return second + self.penalty * torch.eye(len(theta)).double()

    def _state_weights(self, theta: Tensor) -> Tensor:
        logits = self.features @ theta
        weights = torch.zeros(len(self.features)).double()
        for group in self.groups:
            inside = group.weight[:, None] * torch.softmax(group.logits(logits), -1)
            weights.index_add_(0, group.states.flatten(), inside.flatten())
        return weights


def population_pairs(law: MaskLaw, probabilities: Tensor) -> Tuple[LongTensor, LongTensor, Tensor]:
    """All (state, block) pairs with their weights q(x) p(K | x): states, blocks, weights.

    With them :class:`PseudolikelihoodObjective` is the population loss L_PL.
    """
    weights = (probabilities[:, None] * law.table(len(probabilities))).flatten()
    states = torch.arange(len(probabilities)).repeat_interleave(len(law.sites))
    blocks = torch.arange(len(law.sites)).repeat(len(probabilities))
    kept = weights > 0
    return states[kept], blocks[kept], weights[kept]
