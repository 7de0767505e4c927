"""Decoder passes compiled by torch, over padded shapes that repeat; on a GPU replayed as CUDA graphs."""

import logging
import os
import shutil
import time
from typing import Any, Callable, List, Optional, Set, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_gmlm.errors import UserError
from fairseq_gmlm.models.decoder import Decoded
from fairseq_gmlm.models.memory import Memory

logger = logging.getLogger(__name__)

STEP = 8
"""Lengths of sources and canvases are rounded up to a multiple of this."""
MOST_SHAPES = 256
"""So many shapes are compiled before torch gives up."""

Shape = Tuple[int, int, int, int]


def rounded_length(length: int) -> int:
    """The bucket of a length: 1 .. 8 -> 8, 9 .. 16 -> 16, ..."""
    return -(-length // STEP) * STEP


def rounded_batch(sentences: int) -> int:
    """The bucket of a number of sentences: the next power of two."""
    return 1 << max(sentences - 1, 0).bit_length()


def check_compilation(dtype: str, device: torch.device, cuda_graphs: bool) -> None:
    """Refuse what cannot be compiled here.

    Raises:
        UserError: with the reason and what to use instead.
    """
    option = "--decode-cuda-graphs" if cuda_graphs else "--decode-compile"
    if cuda_graphs and device.type != "cuda":
        raise UserError(f"{option} needs a GPU, the model is on {device.type}; leave it out")
    if dtype == "int8":
        raise UserError(
            f"{option}: the kernels of --decode-dtype int8 are opaque to torch's compiler; use "
            "float32 or bfloat16, or leave it out"
        )
    if device.type == "cpu":
        compiler = os.environ.get("CXX")
        if not any(shutil.which(name) for name in ([compiler] if compiler else ["g++", "clang++"])):
            raise UserError(
                f"{option}: torch compiles with a C++ compiler, and "
                f"{f'CXX={compiler}' if compiler else 'neither g++ nor clang++'} can be found; "
                "install one, name it in CXX, or leave the option out"
            )
    elif not _has_triton():
        raise UserError(f"{option}: torch compiles for GPUs with triton, which is not installed")


def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


class CompiledModel:
    """A decoding model whose passes are compiled; all else is the model's.

    Canvases, sources and batches are padded to buckets, so that few shapes occur; each costs its
    compilation once, which is logged.

    Args:
        model: made by ``decoding_copy`` without packed weights.
        cuda_graphs: replay the passes from CUDA graphs.
    """

    decodes_columns = False  # their number changes from pass to pass

    def __init__(self, model: Any, cuda_graphs: bool = False) -> None:
        self.model, self.cuda_graphs = model, cuda_graphs
        self.shapes: Set[Shape] = set()
        self._padded: Tuple[Optional[Memory], Optional[Memory]] = (None, None)
        how: dict = {"mode": "reduce-overhead"} if cuda_graphs else {}
        if not how and next(model.parameters()).device.type == "cpu":
            how = {"options": {"freezing": True}}  # weights in the order that kernels read
        self._states: Callable[..., Tensor] = torch.compile(
            self._pass, dynamic=False, fullgraph=True, **how
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def _pass(self, tokens: Tensor, cross: List[Tuple[Tensor, Tensor]], mask: Tensor) -> Tensor:
        memory = Memory(states=tokens, real=tokens, mask=mask, cross=cross)  # two fields are read
        return self.model.decoder(tokens, memory, True).states

    def decode(
        self, tokens: Tensor, memory: Memory, padded: bool = True, need_weights: bool = False
    ) -> Decoded:
        """One decoder pass, as ``gmlm_transformer`` has it; with attention maps not compiled."""
        if need_weights:
            return self.model.decode(tokens, memory, padded, need_weights)
        rows, length = tokens.shape
        wide = self._memory(memory)
        candidates = rows // memory.real.size(0)
        batch, sources = wide.real.shape
        tokens = F.pad(
            tokens, (0, rounded_length(length) - length), value=self.model.decoder.padding_idx
        )
        tokens = _last_repeated(tokens, batch * candidates)
        shape = (batch, candidates, tokens.size(1), sources)
        states = self._timed(shape, tokens, wide)
        return Decoded(states[:rows, :length])

    def _timed(self, shape: Shape, tokens: Tensor, memory: Memory) -> Tensor:
        """States of a pass; the first of a shape is timed."""
        new = shape not in self.shapes
        start = time.perf_counter()
        if self.cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch._dynamo.config.patch(**{_limit(): MOST_SHAPES}):
            states = self._states(tokens, memory.cross, memory.mask)
        if self.cuda_graphs:
            states = states.clone()  # the next replay writes to the same place
        if new:
            self.shapes.add(shape)
            logger.info(
                f"compiled decoder passes for {shape[0]} x {shape[1]} rows, {shape[2]} tokens, "
                f"sources of {shape[3]}: {time.perf_counter() - start:.1f} s; "
                f"{len(self.shapes)} shape(s) so far"
            )
        return states

    def _memory(self, memory: Memory) -> Memory:
        """The memory in its bucket, kept for the passes that follow."""
        known, wide = self._padded
        if known is not memory:
            wide = _widened(memory)
            self._padded = memory, wide
        return wide


def _widened(memory: Memory) -> Memory:
    """Padded to the bucket of its shape; what is added is masked, or repeats the last sentence."""
    batch, length = memory.real.shape
    more, sentences = rounded_length(length) - length, rounded_batch(batch)
    real = F.pad(memory.real, (0, more), value=False)
    cross = [
        tuple(_last_repeated(F.pad(x, (0, 0, 0, more)), sentences).contiguous() for x in pair)
        for pair in memory.cross
    ]
    real = _last_repeated(real, sentences)
    return Memory(memory.states, real, real[:, None, None, :], cross, memory.length_state)


def _last_repeated(x: Tensor, rows: int) -> Tensor:
    """``x`` with its last row repeated until there are ``rows``."""
    more = rows - x.size(0)
    return x if more == 0 else torch.cat([x, x[-1:].expand(more, *x.shape[1:])])


def _limit() -> str:
    """Name of torch's setting for the most shapes of one function."""
    return (
        "recompile_limit"
        if hasattr(torch._dynamo.config, "recompile_limit")
        else "cache_size_limit"
    )
