"""fairseq_gmlm.data.subwords: learning and applying codes."""

from collections import Counter

import pytest

from fairseq_gmlm.data.subwords import HEADER, NO_MERGE, Segmenter, check_codes, learn_codes
from fairseq_gmlm.errors import UserError


def test_learned_codes_are_applied_and_joined_again(tmp_path):
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    learn_codes(words, 10, tmp_path / "codes")
    check_codes(tmp_path / "codes")
    segment = Segmenter(tmp_path / "codes")
    assert segment(["newest", "low"]) == ["newest", "low"]
    pieces = segment(["lowest", "unseen"])
    assert pieces[:2] == ["lo@@", "west"]
    assert " ".join(pieces).replace("@@ ", "") == "lowest unseen"


def test_codes_do_not_depend_on_the_order_of_words(tmp_path):
    pairs = [("ab", 3), ("cd", 3), ("abcd", 3)]
    learn_codes(Counter(dict(pairs)), 5, tmp_path / "a")
    learn_codes(Counter(dict(reversed(pairs))), 5, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("words", [{}, {"a": 4, "b": 1}])
def test_nothing_to_merge(tmp_path, words):
    learn_codes(Counter(words), 10, tmp_path / "codes")
    assert (tmp_path / "codes").read_text() == HEADER + NO_MERGE
    check_codes(tmp_path / "codes")
    assert Segmenter(tmp_path / "codes")(["ab"]) == ["a@@", "b"]


def test_a_word_that_reads_like_a_symbol_never_comes_out_whole(tmp_path):
    learn_codes(Counter({"<mask>": 50, "<pad>": 50, "madeupword0001": 50}), 60, tmp_path / "codes")
    pieces = Segmenter(tmp_path / "codes")(["<mask>", "<pad>", "madeupword0001"])
    assert pieces == ["<@@", "mask>", "<@@", "pad>", "m@@", "adeupword0001"]


def test_a_file_that_is_not_codes_is_named_with_the_line(tmp_path):
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\na b\nthree units here\n")
    with pytest.raises(UserError, match=r"codes, line 3: expected two units"):
        check_codes(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8 text"):
        check_codes(path)
