r"""Templates: text with blanks, such as ``The ___ sat on ___{2,4} .``

A blank is three or more underscores: ``___`` (of a default length), ``___{3}`` (three tokens) or
``___{2,5}`` (two to five tokens). ``\_`` stands for an underscore that is text. Lengths count the
tokens of the model, which are subwords where it was trained on subwords.
"""

import re
from dataclasses import dataclass
from itertools import product
from typing import List, Tuple, Union

_BLANK = re.compile(r"_{3,}(\{[^{}]*\}?)?")
_LENGTH = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d+)\s*)?\}")


class TemplateError(ValueError):
    """A fault in a template.

    Attributes:
        column: where, in characters from 1.
    """

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Blank:
    """A run of tokens to be filled in.

    Attributes:
        shortest, longest: number of tokens.
        column: where it begins, from 1.
    """

    shortest: int
    longest: int
    column: int


@dataclass(frozen=True)
class Fragment:
    """Given text, kept as it is.

    Attributes:
        text: without the escapes.
        columns: column of each of its characters in the template, from 1.
    """

    text: str
    columns: Tuple[int, ...]


Part = Union[Fragment, Blank]


def parse_length(text: str, default_column: int = 1) -> Tuple[int, int]:
    """``{3}`` -> (3, 3), ``{2,5}`` -> (2, 5).

    Raises:
        TemplateError: neither, no token at all, or the shortest is longer than the longest.
    """
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise TemplateError(
            default_column, f"a blank's length is {{3}} or {{2,5}}, found {text[:20]!r}"
        )
    shortest = int(match[1])
    longest = int(match[2]) if match[2] else shortest
    if shortest < 1 or longest < shortest:
        raise TemplateError(
            default_column,
            f"a blank has at least one token and its shortest length comes first, found {text!r}",
        )
    return shortest, longest


def parse_template(line: str, default: Tuple[int, int] = (1, 1)) -> List[Part]:
    """Fragments and blanks of one line, in their order.

    Args:
        line: the template.
        default: shortest and longest length of a blank without one.

    Raises:
        TemplateError: with the column of what is wrong.
    """
    parts: List[Part] = []
    text, columns = "", []  # of the fragment that is being read
    at = 0
    while at < len(line):
        if line.startswith("\\_", at):
            # A run of underscores after the escape is text as a whole.
            end = at + 1
            while end < len(line) and line[end] == "_":
                end += 1
            text, columns = text + line[at + 1 : end], [*columns, *range(at + 2, end + 1)]
            at = end
            continue
        match = _BLANK.match(line, at)
        if match is None:
            text, columns = text + line[at], [*columns, at + 1]
            at += 1
            continue
        following = line[match.end() : match.end() + 1]
        for neighbour in (text[-1:], following):
            if neighbour.isalnum() or neighbour == "_":
                raise TemplateError(
                    at + 1,
                    "a blank stands for whole words, not for a part of one; put a space between "
                    f"it and {neighbour!r}",
                )
        if text:
            parts.append(Fragment(text, tuple(columns)))
            text, columns = "", []
        length = default
        if match[1]:
            length = parse_length(match[1], match.start(1) + 1)
        parts.append(Blank(*length, at + 1))
        at = match.end()
    if text:
        parts.append(Fragment(text, tuple(columns)))
    return parts


def blank_lengths(parts: List[Part], most: int) -> List[Tuple[int, ...]]:
    """All combinations of lengths of the blanks, shortest first; ``[()]`` without any blank.

    Raises:
        TemplateError: there are more than ``most``.
    """
    blanks = [part for part in parts if isinstance(part, Blank)]
    count = 1
    for blank in blanks:
        count *= blank.longest - blank.shortest + 1
        if count > most:
            raise TemplateError(
                blank.column,
                f"the blanks up to this one can have more than {most} combinations of lengths; "
                "narrow their ranges or raise --max-lengths",
            )
    return list(product(*(range(b.shortest, b.longest + 1) for b in blanks)))
