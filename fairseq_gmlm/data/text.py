"""What happens to one line of text before subwords: cleaning, tokenising, guarding symbols."""

import re
import sys
import unicodedata
from dataclasses import dataclass
from typing import List, Optional

from fairseq_gmlm.errors import UserError

# Separators that some reader takes for the end of a line, controls that no reader shows, and the
# byte-order mark, which is not part of any text.
_BREAKS = {0x2028, 0x2029}
_CLEAN = {
    code: " "
    for code in range(sys.maxunicode + 1)
    if code in _BREAKS or unicodedata.category(chr(code)) == "Cc"
}
_CLEAN[0xFEFF] = ""
_DOUBLE_AT = re.compile(r"@(?=@)")
_RESERVED = re.compile(r"<[^<>]*>|madeupword\d+")


def clean_line(line: str) -> str:
    """The line with nothing in it that could end a line elsewhere.

    Control characters, tabs and line separators become spaces, byte-order marks go, and the
    ``\\r`` of a CRLF file goes with the space it would leave. Other text is kept as it is.

    >>> clean_line("one\\ttwo\\u2028three\\r")
    'one two three'
    """
    if line.endswith("\r"):
        line = line[:-1]
    return line.translate(_CLEAN)


def guard_separator(token: str) -> List[str]:
    """Split ``@@``, which marks a subword that goes on, wherever the text itself has it.

    >>> guard_separator("a@@b")
    ['a@', '@b']
    """
    return _DOUBLE_AT.sub("@ ", token).split(" ")


def guard_symbols(pieces: List[str]) -> List[str]:
    """Split pieces that read like a symbol of the dictionary, so that they never become one.

    Joining subwords gives the text back as it was.

    >>> guard_symbols(["a", "<pad>", "madeupword0001"])
    ['a', '<@@', 'pad>', 'm@@', 'adeupword0001']
    """
    guarded: List[str] = []
    for piece in pieces:
        if _RESERVED.fullmatch(piece):
            guarded += [piece[0] + "@@", piece[1:]]
        else:
            guarded.append(piece)
    return guarded


@dataclass(frozen=True)
class Tokenization:
    """How text is cut into words.

    Attributes:
        tokenizer: ``moses`` (sacremoses) or ``none`` (words are what spaces separate).
        split_hyphens: Moses's aggressive hyphen splitting, ``well-known`` to ``well @-@ known``.
        escape: Moses's escaping of ``& | < > ' " [ ]``.
    """

    tokenizer: str = "moses"
    split_hyphens: bool = True
    escape: bool = True


class Tokenizer:
    """Cuts lines of one language into words.

    Raises:
        UserError: when sacremoses is asked for and not installed.
    """

    def __init__(self, language: str, options: Tokenization) -> None:
        self.options = options
        self._moses: Optional[object] = None
        if options.tokenizer == "moses":
            try:
                from sacremoses import MosesTokenizer
            except ImportError as error:
                raise UserError(
                    "--tokenizer moses needs sacremoses: pip install sacremoses, or "
                    "--tokenizer none for text that is tokenised already"
                ) from error
            self._moses = MosesTokenizer(lang=language)

    def __call__(self, line: str) -> List[str]:
        """Words of one cleaned line; never one with ``@@`` or any kind of space in it."""
        if self._moses is not None:
            line = self._moses.tokenize(
                line,
                aggressive_dash_splits=self.options.split_hyphens,
                return_str=True,
                escape=self.options.escape,
            )
        return [part for word in line.split() for part in guard_separator(word)]
