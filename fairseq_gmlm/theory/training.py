"""Masked prediction with any network on short sequences, ``gmlm_lm`` among them.

A network is a module whose ``forward(tokens, hidden)`` maps symbols ``(R, N)`` and a mask
``(R, N)`` to log-probabilities ``(R, N, A)``; ``examples/ising`` makes one of ``gmlm_lm``.
"""

from typing import Optional

import torch
from torch import BoolTensor, LongTensor, Tensor, nn

from fairseq_gmlm.theory.mask_laws import MaskLaw
from fairseq_gmlm.theory.neural import Conditional


def as_conditional(network: nn.Module) -> Conditional:
    """The network as a callable without gradients, for :mod:`fairseq_gmlm.theory.neural`."""

    def conditional(tokens: LongTensor, hidden: BoolTensor) -> Tensor:
        network.eval()
        with torch.no_grad():
            return network(tokens, hidden)

    return conditional


def train_network(
    network: nn.Module,
    samples: LongTensor,
    law: MaskLaw,
    updates: int,
    seed: int,
    batch_size: int = 256,
    learning_rate: float = 2e-3,
) -> float:
    """Masked prediction on ``samples (n, N)``: one fresh mask for each sequence of a batch.

    The loss is the mean of -log p(x_i | x_-K) over the hidden sites of a sequence, then over
    sequences (notes, section 7.1). Adam, with a cosine decay to zero.

    Returns:
        Mean loss of the last tenth of the updates, in nats.

    Raises:
        ValueError: an adaptive law, or one that may hide nothing.
    """
    if law.adaptive or not law.blocks.any(1).all():
        raise ValueError("training takes a mask law that is not adaptive and always hides a site")
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    network.train()
    recent: Optional[float] = None
    for update in range(updates):
        rows = torch.randint(len(samples), (batch_size,), generator=generator)
        drawn = torch.multinomial(law.probabilities, batch_size, True, generator=generator)
        tokens, hidden = samples[rows], law.blocks[drawn]
        logs = network(tokens, hidden).gather(-1, tokens[..., None]).squeeze(-1)
        loss = -((logs * hidden).sum(1) / hidden.sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update >= updates - max(1, updates // 10):
            recent = loss.item() if recent is None else recent + loss.item()
    return (recent or 0.0) / max(1, updates // 10)
