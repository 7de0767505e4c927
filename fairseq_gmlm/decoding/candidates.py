"""Length candidates and the canvases of a batch."""

import math
from typing import Any, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.state import ChainState, blank, initial_state
from fairseq_gmlm.masking import mask_symbols, random_tokens
from fairseq_gmlm.models.lengths import SHORTEST, offset_beam, true_length
from fairseq_gmlm.models.memory import Memory

_START_STREAM = 1


def candidate_lengths(
    model: Any,
    memory: Memory,
    options: DecodingOptions,
    target: Optional[Tensor],
    empty: Tensor,
    output: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """Lengths to try for each sentence, BOS and EOS counted.

    Args:
        model: with ``lengths`` and ``length_predictor``.
        memory: encoded sources.
        options: ``length_beam``, ``length_offset_beam``, ``parallel_decodes``, ``oracle_length``.
        target: references (B, T), for the oracle.
        empty: bool (B,), sources without any word: their target is empty too.
        output: of the length head, if it has been computed (see :func:`averaged_lengths`).

    Returns:
        lengths int64 (B, K) and their log-probabilities (B, K), K = ``options.candidates``.
    """
    longest = model.decoder.max_positions()
    if options.oracle_length:
        lengths = true_length(target, model.vocabulary.pad).expand(-1, options.length_beam)
        scores = torch.zeros(lengths.shape, device=lengths.device)
    else:
        output = model.lengths(memory) if output is None else output
        lengths, scores = model.length_predictor.candidates(output, options.length_beam)
        if lengths.size(1) < options.length_beam:
            raise ValueError(
                f"--iter-decode-with-beam {options.length_beam} asks for more lengths than the "
                f"model knows ({lengths.size(1)})"
            )
    lengths, scores = offset_beam(lengths, scores, options.length_offset_beam, longest)
    # One word at least, unless there is nothing to translate.
    lengths = lengths.clamp(SHORTEST + 1, longest)
    lengths = lengths.masked_fill(empty[:, None], SHORTEST)
    times = options.parallel_decodes
    return lengths.repeat_interleave(times, 1), scores.repeat_interleave(times, 1)


def averaged_lengths(models: Sequence[Any], memories: Sequence[Memory]) -> Optional[Tensor]:
    """Output of an ensemble's length heads: mean probabilities of classes, or mean lengths.

    None where there is nothing to average, or where the heads are of different kinds or sizes:
    then the first model's counts.
    """
    if len(models) < 2:
        return None
    outputs = [model.lengths(memory).float() for model, memory in zip(models, memories)]
    if len({output.shape for output in outputs}) > 1:
        return None
    stacked = torch.stack(outputs)
    if stacked.dim() == 2:
        return stacked.mean(0)
    return stacked.log_softmax(-1).logsumexp(0) - math.log(len(models))


def start_chain(
    model: Any, lengths: Tensor, start: str, sentence_keys: Tensor, seed: int, pad: int
) -> Tuple[ChainState, bool]:
    """Canvases for all candidates.

    Args:
        model: gives the vocabulary and the ids of masks and ordinary tokens.
        lengths: int64 (B, K).
        start: ``mask``, ``random`` or ``mask-range``.
        sentence_keys: int64 (B,), what the random draws of a sentence depend on.
        seed: of this run.
        pad: padding id.

    Returns:
        the state of B * K rows, and whether any row is padded.

    Raises:
        ValueError: a mask-range start without per-position masks.
    """
    count = lengths.size(1)
    flat = lengths.reshape(-1)
    sizes = flat.tolist()  # one synchronisation per batch
    longest = max(sizes)
    vocabulary = model.vocabulary
    tokens = blank(flat, longest, pad, vocabulary.bos, vocabulary.eos, vocabulary.mask)
    column = torch.arange(longest, device=flat.device)[None]
    free = (column > 0) & (column < flat[:, None] - 1)
    place = (column - 1).clamp(min=0).expand_as(tokens)
    number = torch.arange(count, device=flat.device).repeat(lengths.size(0))
    rng = CounterRNG(seed, sentence_keys.repeat_interleave(count) + number)
    if start == "random":
        fill = random_tokens(model.ordinary, rng, place, _START_STREAM)
        tokens = torch.where(free, fill, tokens)
    elif start == "mask-range":
        if model.mask_ids.numel() == 1:
            raise ValueError(
                "--decode-start mask-range needs a model trained with --mask-range N, and the "
                "same --mask-range here"
            )
        symbols = mask_symbols(model.mask_ids, place.masked_fill(~free, 0))
        tokens = torch.where(free, symbols, tokens)
    return initial_state(tokens, free, place, rng), min(sizes) < longest
