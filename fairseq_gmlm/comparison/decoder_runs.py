"""Counting the decoder's runs of fairseq's Levenshtein models, whose steps take up to three."""

from typing import Any, Tuple

from torch import nn


class DecoderRuns:
    """Counts, by the first layer of each stack, how many sentences went through a decoder.

    One step deletes, inserts blanks and fills them; each is a run of its own, of those sentences
    only that need it. The sum over all runs / sentences is the mean number of passes.

    Args:
        decoder: with ``layers``, and perhaps stacks of its own for deletion and insertion.

    Attributes:
        sentences: rows of all runs since the last :meth:`reset`.
    """

    def __init__(self, decoder: Any) -> None:
        self.sentences = 0
        stacks = [getattr(decoder, name, None) for name in ("layers", "layers_msk", "layers_del")]
        for first in {id(stack[0]): stack[0] for stack in stacks if stack is not None}.values():
            first.register_forward_pre_hook(self._count)

    def _count(self, layer: nn.Module, inputs: Tuple[Any, ...]) -> None:
        self.sentences += inputs[0].size(1)  # (T, B, C)

    def reset(self) -> None:
        """Begin anew."""
        self.sentences = 0
