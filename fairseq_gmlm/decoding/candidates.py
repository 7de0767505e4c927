"""Length candidates and the canvases of a batch."""

from typing import Any, Optional, Tuple

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
) -> Tuple[Tensor, Tensor]:
    """Lengths to try for each sentence, BOS and EOS counted.

    Args:
        model: with ``lengths`` and ``length_predictor``.
        memory: encoded sources.
        options: ``length_beam``, ``length_offset_beam``, ``parallel_decodes``, ``oracle_length``.
        target: references (B, T), for the oracle.
        empty: bool (B,), sources without any word: their target is empty too.

    Returns:
        lengths int64 (B, K) and their log-probabilities (B, K), K = ``options.candidates``.
    """
    longest = model.decoder.max_positions()
    if options.oracle_length:
        lengths = true_length(target, model.vocabulary.pad).expand(-1, options.length_beam)
        scores = torch.zeros(lengths.shape, device=lengths.device)
    else:
        output = model.lengths(memory)
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
