"""One split of a parallel corpus: tokenised, filtered, counted, segmented."""

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from fairseq_gmlm.data.files import atomic_write, read_json, write_json
from fairseq_gmlm.data.lines import batches, read_lines, read_pairs
from fairseq_gmlm.data.subwords import Segmenter
from fairseq_gmlm.data.text import Tokenization, Tokenizer, clean_line
from fairseq_gmlm.data.workers import ordered_map

BATCH = 1000

Batch = List[Tuple[str, str]]
Cleaned = List[Tuple[Tuple[str, str], Tuple[List[str], List[str]]]]


@dataclass(frozen=True)
class Filter:
    """Which training pairs are kept; ``None`` means no limit.

    Attributes:
        max_words: longest side, in words after tokenisation.
        max_ratio: longer side divided by the shorter, in words.
    """

    max_words: Optional[int] = None
    max_ratio: Optional[float] = None

    def reason_to_drop(self, source: List[str], target: List[str]) -> Optional[str]:
        """``empty``, ``max_words``, ``max_ratio``, or None for a pair that is kept."""
        longer, shorter = max(len(source), len(target)), min(len(source), len(target))
        if shorter == 0:
            return "empty"
        if self.max_words is not None and longer > self.max_words:
            return "max_words"
        if self.max_ratio is not None and longer > self.max_ratio * shorter:
            return "max_ratio"
        return None


@dataclass
class Counts:
    """What became of a split's lines.

    Attributes:
        read: pairs in the input.
        kept: pairs in the output.
        dropped: reason to number of pairs.
        empty: lines without a word among those kept, per language.
        words: words after tokenisation among those kept, per language.
    """

    read: int = 0
    kept: int = 0
    dropped: Dict[str, int] = field(default_factory=dict)
    empty: Dict[str, int] = field(default_factory=dict)
    words: Dict[str, int] = field(default_factory=dict)


def _make_tokenize(languages: Tuple[str, str], options: Tokenization) -> Callable[[Batch], Cleaned]:
    tokenizers = [Tokenizer(language, options) for language in languages]

    def tokenize(batch: Batch) -> Cleaned:
        cleaned = [(clean_line(source), clean_line(target)) for source, target in batch]
        return [(pair, (tokenizers[0](pair[0]), tokenizers[1](pair[1]))) for pair in cleaned]

    return tokenize


def tokenize_split(
    files: Tuple[Path, Path],
    folder: Path,
    name: str,
    languages: Tuple[str, str],
    options: Tokenization,
    keep: Optional[Filter],
    workers: int = 1,
) -> Counts:
    """Write ``NAME.tok.LANGUAGE``, and for held-out splits ``NAME.raw.LANGUAGE``, to ``folder``.

    Args:
        keep: the filter for train; ``None`` for valid and test, where every line stays and the
            cleaned text before tokenisation is written too.

    Returns:
        the counts, also written to ``NAME.counts.json``; read from there when already done.
    """
    done = folder / f"{name}.counts.json"
    if done.exists():
        return Counts(**read_json(done))
    counts = Counts(empty=dict.fromkeys(languages, 0), words=dict.fromkeys(languages, 0))
    kinds = ["tok"] if keep is not None else ["tok", "raw"]
    with contextlib.ExitStack() as stack:
        outputs: Dict[Tuple[str, int], Any] = {
            (kind, side): stack.enter_context(
                atomic_write(folder / f"{name}.{kind}.{languages[side]}")
            )
            for kind in kinds
            for side in (0, 1)
        }
        pairs = batches(read_pairs(*files, label=f"tokenising {name}"), BATCH)
        for batch in ordered_map(_make_tokenize, (languages, options), pairs, workers):
            for raw, words in batch:
                counts.read += 1
                reason = keep.reason_to_drop(*words) if keep is not None else None
                if reason is not None:
                    counts.dropped[reason] = counts.dropped.get(reason, 0) + 1
                    continue
                counts.kept += 1
                for side, language in enumerate(languages):
                    counts.words[language] += len(words[side])
                    counts.empty[language] += not words[side]
                    outputs["tok", side].write(" ".join(words[side]) + "\n")
                    if keep is None:
                        outputs["raw", side].write(raw[side] + "\n")
    write_json(done, counts.__dict__)
    return counts


def count_words(paths: List[Path]) -> "Counter[str]":
    """Number of times that each word stands in tokenised files."""
    words: Counter[str] = Counter()
    for path in paths:
        for line in read_lines(path):
            words.update(line.split(" ") if line else [])
    return words


def _make_segment(codes: Tuple[Path, Path]) -> Callable[[Batch], Batch]:
    first = Segmenter(codes[0])
    segmenters = first, (first if codes[0] == codes[1] else Segmenter(codes[1]))

    def segment(batch: Batch) -> Batch:
        return [
            (" ".join(segmenters[0](source.split())), " ".join(segmenters[1](target.split())))
            for source, target in batch
        ]

    return segment


def segment_split(
    files: Tuple[Path, Path],
    outputs: Tuple[Path, Path],
    codes: Tuple[Path, Path],
    label: str,
    workers: int = 1,
) -> None:
    """Apply each side's codes to its tokenised file; nothing to do when both outputs are there."""
    if all(path.exists() for path in outputs):
        return
    with atomic_write(outputs[0]) as source, atomic_write(outputs[1]) as target:
        pairs = batches(read_pairs(*files, label=label), BATCH)
        for batch in ordered_map(_make_segment, (codes,), pairs, workers):
            source.write("".join(f"{line}\n" for line, _ in batch))
            target.write("".join(f"{line}\n" for _, line in batch))
