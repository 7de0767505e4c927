"""fairseq_gmlm.data.corpus: filters and counts of one split."""

import pytest

from fairseq_gmlm.data.corpus import Filter, count_words, tokenize_split
from fairseq_gmlm.data.text import Tokenization

PLAIN = Tokenization(tokenizer="none")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (3, 3, None),
        (0, 3, "empty"),
        (3, 0, "empty"),
        (0, 0, "empty"),
        (6, 3, None),
        (7, 6, "max_words"),
        (5, 2, "max_ratio"),
        (2, 5, "max_ratio"),
        (4, 2, None),
    ],
)
def test_reasons_to_drop(source, target, reason):
    keep = Filter(max_words=6, max_ratio=2.0)
    assert keep.reason_to_drop(["w"] * source, ["w"] * target) == reason


def test_no_limits_drop_only_what_is_empty():
    assert Filter().reason_to_drop(["w"], ["w"] * 10_000) is None
    assert Filter().reason_to_drop([], ["w"]) == "empty"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in.en").write_text("a b\n\nc\td\n  \nlong long long\n")
    (tmp_path / "in.de").write_text("A\nB\nC D\n\nL\n")
    return tmp_path / "in.en", tmp_path / "in.de"


@pytest.mark.parametrize("workers", [1, 2])
def test_train_drops_with_a_count(tmp_path, files, workers):
    keep = Filter(max_words=2)
    counts = tokenize_split(files, tmp_path, "train", ("en", "de"), PLAIN, keep, workers)
    assert (counts.read, counts.kept) == (5, 2)
    assert counts.dropped == {"empty": 2, "max_words": 1}
    assert counts.words == {"en": 4, "de": 3}
    assert (tmp_path / "train.tok.en").read_text() == "a b\nc d\n"
    assert not (tmp_path / "train.raw.en").exists()
    assert count_words([tmp_path / "train.tok.en", tmp_path / "train.tok.de"]) == dict.fromkeys(
        "abcdACD", 1
    )


def test_test_keeps_every_line_and_its_text(tmp_path, files):
    counts = tokenize_split(files, tmp_path, "test", ("en", "de"), PLAIN, None)
    assert (counts.read, counts.kept, counts.dropped) == (5, 5, {})
    assert counts.empty == {"en": 2, "de": 1}
    assert (tmp_path / "test.raw.en").read_text() == "a b\n\nc d\n  \nlong long long\n"
    assert (tmp_path / "test.tok.en").read_text() == "a b\n\nc d\n\nlong long long\n"


def test_a_finished_split_is_not_read_again(tmp_path, files):
    first = tokenize_split(files, tmp_path, "test", ("en", "de"), PLAIN, None)
    files[0].unlink()
    assert tokenize_split(files, tmp_path, "test", ("en", "de"), PLAIN, None) == first
