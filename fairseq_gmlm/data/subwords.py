"""Byte-pair encoding by subword-nmt: learning codes from word counts, applying them."""

from collections import Counter
from pathlib import Path
from typing import IO, List

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.data.text import guard_symbols
from fairseq_gmlm.errors import UserError

SEPARATOR = "@@"
HEADER = "#version: 0.2\n"


def learn_codes(words: "Counter[str]", merges: int, path: Path) -> None:
    """Write at most ``merges`` merge operations, learned from word counts, to ``path``.

    Memory grows with the number of distinct words, not with the corpus.
    """
    with atomic_write(path) as stream:
        if any(len(word) > 1 for word in words):
            # Sorted, so that ties do not depend on the order of the corpus.
            lines = (f"{word} {words[word]}" for word in sorted(words))
            learn_bpe(lines, stream, merges, is_dict=True)
        else:
            stream.write(HEADER)


def check_codes(path: Path) -> None:
    """Refuse a file that does not hold merge operations.

    Raises:
        UserError: naming the file and the first line that is not two units.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"--bpe-codes {path}: not UTF-8 text ({error.reason})") from error
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        if number == 1 and line.startswith("#version:"):
            continue
        if len(line.strip("\r ").split(" ")) != 2:
            raise UserError(
                f"--bpe-codes {path}, line {number}: expected two units of subword-nmt, "
                f"found {line[:60]!r}"
            )


class Segmenter:
    """Cuts words into the subwords that a codes file gives."""

    def __init__(self, path: Path) -> None:
        with path.open(encoding="utf-8", newline="\n") as stream:
            self._bpe = _read(stream)

    def __call__(self, words: List[str]) -> List[str]:
        """Subwords of one line, none of which reads like a symbol of the dictionary."""
        return guard_symbols(self._bpe.segment_tokens(words))


def _read(stream: IO[str]) -> BPE:
    bpe = BPE(stream, separator=SEPARATOR)
    # A codes file with a header and no merges reads as one empty merge.
    bpe.bpe_codes.pop(("",), None)
    return bpe
