"""Reading templates."""

import pytest

from fairseq_gmlm.decoding.templates import (
    Blank,
    Fragment,
    TemplateError,
    blank_lengths,
    parse_length,
    parse_template,
)


def shown(line, default=(1, 1)):
    return [
        p.text if isinstance(p, Fragment) else (p.shortest, p.longest, p.column)
        for p in parse_template(line, default)
    ]


def test_text_and_blanks():
    assert shown("The ___ sat on ___{2,4} .") == [
        "The ", (1, 1, 5), " sat on ", (2, 4, 16), " .",
    ]  # fmt: skip
    assert shown("____{20}") == [(20, 20, 1)]
    assert shown("___", (2, 3)) == [(2, 3, 1)]
    assert shown('(___), "___"') == ["(", (1, 1, 2), '), "', (1, 1, 9), '"']
    assert shown("___ ___{ 1 , 2 }") == [(1, 1, 1), " ", (1, 2, 5)]
    assert shown("") == []


def test_underscores_that_are_text():
    assert shown(r"a \___ b __ c_d") == ["a ___ b __ c_d"]
    fragment = parse_template(r"a \__ b")[0]
    assert fragment.text == "a __ b"
    assert fragment.columns == (1, 2, 4, 5, 6, 7)


@pytest.mark.parametrize(
    "line, column, message",
    [
        ("a ___{x} b", 6, r"a blank's length is \{3\} or \{2,5\}, found '\{x\}'"),
        ("a ___{3", 6, "found '{3'"),
        ("a ___{-1}", 6, "found '{-1}'"),
        ("a ___{0}", 6, "at least one token"),
        ("a ___{5,2}", 6, "its shortest length comes first"),
        ("a b___ c", 4, "put a space between it and 'b'"),
        ("a ___c", 3, "put a space between it and 'c'"),
        ("a ___{2}c", 3, "put a space between it and 'c'"),
    ],
)
def test_faults_have_a_column(line, column, message):
    with pytest.raises(TemplateError, match=message) as caught:
        parse_template(line)
    assert caught.value.column == column


def test_combinations_of_lengths():
    parts = parse_template("___{1,2} x ___{3} ___{4,5}")
    assert blank_lengths(parts, 4) == [(1, 3, 4), (1, 3, 5), (2, 3, 4), (2, 3, 5)]
    assert blank_lengths(parse_template("nothing"), 1) == [()]
    with pytest.raises(TemplateError, match="more than 3 combinations") as caught:
        blank_lengths(parts, 3)
    assert caught.value.column == 19
    assert isinstance(parts[0], Blank)


def test_lengths_from_options():
    assert parse_length("{3}") == (3, 3)
    assert parse_length("{2,5}") == (2, 5)
