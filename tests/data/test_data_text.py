"""fairseq_gmlm.data.text: cleaning, tokenising, guarding."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.data.text import (
    Tokenization,
    Tokenizer,
    clean_line,
    guard_separator,
    guard_symbols,
)

LINE_ENDS = ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("plain  text ", "plain  text "),
        ("one\r", "one"),
        ("one\rtwo", "one two"),
        ("\ufeffbyte\ufefforder", "byteorder"),
        ("tab\tnul\x00esc\x1b", "tab nul esc "),
        ("a\x85b\u2028c\u2029d\x1ce", "a b c d e"),
        ("non\xa0breaking, emoji \U0001f642, \u05d0", "non\xa0breaking, emoji \U0001f642, \u05d0"),
    ],
)
def test_clean_line(line, cleaned):
    assert clean_line(line) == cleaned


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_cleaned_line_is_one_line_to_every_reader(text):
    cleaned = clean_line(text)
    assert len(cleaned.splitlines()) <= 1
    assert not any(end in cleaned for end in LINE_ENDS)
    assert clean_line(cleaned) == cleaned


@pytest.mark.parametrize(
    ("token", "parts"),
    [("word", ["word"]), ("a@b", ["a@b"]), ("@@", ["@", "@"]), ("a@@@", ["a@", "@", "@"])],
)
def test_guard_separator(token, parts):
    assert guard_separator(token) == parts


def test_guard_symbols_splits_what_reads_like_a_symbol_and_joins_again():
    pieces = [
        "<s>",
        "</s>",
        "<pad>",
        "<unk>",
        "<mask>",
        "madeupword0000",
        "<",
        "s>",
        "madeup",
        "w@@",
    ]
    guarded = guard_symbols(pieces)
    assert guarded[:4] == ["<@@", "s>", "<@@", "/s>"]
    reserved = {"<s>", "</s>", "<pad>", "<unk>", "<mask>", "madeupword0000"}
    assert not reserved & set(guarded)
    assert " ".join(guarded).replace("@@ ", "") == " ".join(pieces).replace("@@ ", "")


def test_moses_splits_hyphens_and_escapes():
    tokenizer = Tokenizer("en", Tokenization())
    assert tokenizer('A well-known "test", isn\'t it?') == [
        *["A", "well", "@-@", "known", "&quot;", "test", "&quot;", ","],
        *["isn", "&apos;t", "it", "?"],
    ]
    assert tokenizer("<s> a|b [x] &") == [
        *["&lt;", "s", "&gt;", "a", "&#124;", "b", "&#91;", "x", "&#93;", "&amp;"]
    ]


def test_moses_options():
    kept = Tokenizer("en", Tokenization(split_hyphens=False, escape=False))
    assert kept("A well-known <s>.") == ["A", "well-known", "<", "s", ">", "."]


def test_no_tokenizer_leaves_words_but_not_the_separator():
    plain = Tokenizer("en", Tokenization(tokenizer="none"))
    assert plain("  <s> a@@ b\xa0c well-known.") == ["<s>", "a@", "@", "b", "c", "well-known."]
    assert plain("") == []
