"""fairseq_gmlm.data.lines: only a newline ends a line, and faults are named."""

import gzip

import pytest

from fairseq_gmlm.data.lines import batches, read_lines, read_pairs, resolve
from fairseq_gmlm.errors import UserError


def test_only_a_newline_ends_a_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("a\rb\u2028c\x85d\x0ce\x1cf\r\ng\x00\n\nlast".encode())
    assert list(read_lines(path)) == ["a\rb\u2028c\x85d\x0ce\x1cf\r", "g\x00", "", "last"]


def test_gzip_is_read_like_text(tmp_path):
    path = tmp_path / "text.en.gz"
    path.write_bytes(gzip.compress(b"eins\nzwei\n"))
    assert list(read_lines(path)) == ["eins", "zwei"]
    assert resolve(str(tmp_path / "text"), "en") == path


def test_plain_text_comes_before_gzip(tmp_path):
    for name in ("t.en", "t.en.gz"):
        (tmp_path / name).write_bytes(b"")
    assert resolve(str(tmp_path / "t"), "en").name == "t.en"


def test_missing_file_names_both_spellings(tmp_path):
    with pytest.raises(UserError, match=r"t\.en \(nor t\.en\.gz\)"):
        resolve(str(tmp_path / "t"), "en")


@pytest.mark.parametrize("bad", [b"caf\xe9", b"\xed\xa0\x80 lone surrogate", b"\xff\xfeU\x00"])
def test_undecodable_bytes_are_named_by_file_and_line(tmp_path, bad):
    path = tmp_path / "text"
    path.write_bytes(b"good\n\n" + bad + b"\n")
    with pytest.raises(UserError, match=r"text, line 3: byte \d is not UTF-8"):
        list(read_lines(path))


def test_cut_and_false_gzip_are_named(tmp_path):
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"some text\n" * 500)[:-20])
    with pytest.raises(UserError, match=r"cut\.gz: damaged or cut short"):
        for _ in read_lines(cut):
            pass
    false = tmp_path / "false.gz"
    false.write_bytes(b"plain text\n")
    with pytest.raises(UserError, match=r"false\.gz: not a gzip file"):
        list(read_lines(false))


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2)])
def test_unequal_files_give_both_counts(tmp_path, left, right):
    (tmp_path / "a").write_text("x\n" * left)
    (tmp_path / "b").write_text("y\n" * right)
    with pytest.raises(UserError, match=rf"a has {left} lines and .*b has {right}"):
        list(read_pairs(tmp_path / "a", tmp_path / "b", "test"))


def test_batches_keep_order_and_rest():
    pairs = [(str(i), str(i)) for i in range(5)]
    assert [[a for a, _ in batch] for batch in batches(iter(pairs), 2)] == [
        ["0", "1"],
        ["2", "3"],
        ["4"],
    ]
