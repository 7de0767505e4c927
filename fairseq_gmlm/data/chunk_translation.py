"""Translating a chunk of consecutive sentences in batches of equal length, answered in order."""

import time
from typing import Iterator, List, Optional, Sequence

from fairseq.data import Dictionary
from tqdm import tqdm

from fairseq_gmlm.data.beam_search import Engine
from fairseq_gmlm.data.chunks import Chunk, Outcome


def batches_by_length(
    lengths: Sequence[int], max_tokens: Optional[int], max_sentences: Optional[int]
) -> Iterator[List[int]]:
    """Indices in batches of similar length, shortest first.

    Args:
        lengths: tokens of each sentence.
        max_tokens: limit of sentences times longest sentence; one sentence may exceed it.
        max_sentences: limit of sentences.
    """
    batch: List[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        too_many = max_sentences is not None and len(batch) == max_sentences
        too_long = max_tokens is not None and (len(batch) + 1) * lengths[index] > max_tokens
        if batch and (too_many or too_long):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def translate_chunk(
    sources: Sequence[List[int]],
    engine: Engine,
    forbidden: Sequence[int],
    max_source: int,
    max_tokens: Optional[int],
    max_sentences: Optional[int],
    progress: Optional[tqdm] = None,
) -> Chunk:
    """Translate consecutive sentences, sorted by length for speed, answered in order.

    Args:
        sources: token ids without the end symbol.
        forbidden: symbols that no target may hold, such as padding; taken out.
        max_source: longest source that the teacher can read, its end symbol counted.
    """
    began = time.monotonic()
    never = set(forbidden)
    targets: List[List[int]] = [[] for _ in sources]
    outcomes = [Outcome.TRANSLATED] * len(sources)
    todo: List[int] = []
    for index, source in enumerate(sources):
        if not source:
            outcomes[index] = Outcome.EMPTY_SOURCE
        elif len(source) + 1 > max_source:
            outcomes[index] = Outcome.SOURCE_TOO_LONG
        else:
            todo.append(index)
    lengths = [len(sources[index]) + 1 for index in todo]
    for batch in batches_by_length(lengths, max_tokens, max_sentences):
        indices = [todo[position] for position in batch]
        for index, target in zip(indices, engine.translate([sources[i] for i in indices])):
            targets[index] = [token for token in target if token not in never]
            if not targets[index]:
                outcomes[index] = Outcome.EMPTY_OUTPUT
        if progress is not None:
            progress.update(len(indices))
    if progress is not None:
        progress.update(len(sources) - len(todo))
    return Chunk(targets, outcomes, time.monotonic() - began)


def forbidden_symbols(dictionary: Dictionary) -> List[int]:
    """Ids that no target may hold: the specials, and rows that only fill the dictionary up."""
    filler = [
        index
        for index, (symbol, count) in enumerate(zip(dictionary.symbols, dictionary.count))
        if count == 0 and symbol.startswith("madeupword")
    ]
    specials = [dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()]
    return [*specials, *filler]
