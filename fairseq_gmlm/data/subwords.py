"""Byte-pair encoding by subword-nmt: learning codes from word counts, applying them."""

import io
from collections import Counter
from pathlib import Path
from typing import List

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.data.text import guard_symbols
from fairseq_gmlm.errors import UserError

SEPARATOR = "@@"
HEADER = "#version: 0.2\n"
# subword-nmt cannot read codes without a merge; no word holds the separator, so this one is idle.
NO_MERGE = "@ @</w>\n"


def learn_codes(words: "Counter[str]", merges: int, path: Path) -> None:
    """Write at most ``merges`` merge operations, learned from word counts, to ``path``.

    Memory grows with the number of distinct words, not with the corpus.
    """
    learned = io.StringIO()
    if any(len(word) > 1 for word in words):
        # Sorted, so that ties do not depend on the order of the corpus.
        lines = (f"{word} {words[word]}" for word in sorted(words))
        learn_bpe(lines, learned, merges, is_dict=True)
    text = learned.getvalue()
    with atomic_write(path) as stream:
        stream.write(text if text.count("\n") > 1 else HEADER + NO_MERGE)


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
            self._bpe = BPE(stream, separator=SEPARATOR)

    def __call__(self, words: List[str]) -> List[str]:
        """Subwords of one line, none of which reads like a symbol of the dictionary."""
        return guard_symbols(self._bpe.segment_tokens(words))
