"""fairseq-gmlm prepare: from raw text to a data-bin, and everything that can be wrong with text."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_teacher import ROOT, toy_pairs, write_pairs

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.databin import Languages, load_dictionary, load_split, prefix_of
from fairseq_gmlm.data.text import clean_line

PAIR = Languages("en", "de")


@pytest.fixture
def raw(tmp_path):
    """A folder with small raw files."""
    write_pairs(tmp_path / "train", toy_pairs(60, 1))
    write_pairs(tmp_path / "valid", toy_pairs(5, 2))
    write_pairs(tmp_path / "test", toy_pairs(5, 3))
    return tmp_path


def prepare(folder, *options, splits=("train", "valid", "test"), out="bin", merges=30):
    arguments = ["prepare", "-s", "en", "-t", "de", "--destdir", str(folder / out)]
    for split in splits:
        arguments += [f"--{split}pref", str(folder / split)]
    if merges is not None:
        arguments += ["--bpe-merges", str(merges)]
    return main(arguments + [str(option) for option in options])


def sentences(folder, split, language):
    dictionary = load_dictionary(folder, language)
    data = load_split(prefix_of(folder, split, PAIR, language))
    return [dictionary.string(data[i], bpe_symbol="@@ ") for i in range(len(data))]


def test_the_output_is_whole_and_reads_back(raw, capsys):
    assert prepare(raw) == 0
    made = raw / "bin"
    for split in ("train", "valid", "test"):
        for language in PAIR:
            text = (raw / f"{split}.{language}").read_text().split("\n")[:-1]
            assert sentences(made, split, language) == text
            if split != "train":
                assert (made / f"{split}.raw.{language}").read_text().split("\n")[:-1] == text
                assert (made / f"{split}.tok.{language}").read_text().split("\n")[:-1] == text
    assert (made / "bpecodes").read_text().startswith("#version: 0.2\n")
    assert (made / "dict.en.txt").read_bytes() == (made / "dict.de.txt").read_bytes()
    record = json.loads((made / "prepare.json").read_text())
    assert record["counts"]["train"]["kept"] == 60
    assert record["options"]["bpe_merges"] == 30
    assert record["dictionaries"]["en"] == len(load_dictionary(made, "en"))
    assert not (raw / "bin.partial").exists()
    assert "train: 60 of 60 pairs (dropped: none)" in capsys.readouterr().out


def test_train_is_filtered_and_counted_and_test_is_not(raw, capsys):
    rows = [("a b", "x y"), ("", "x"), ("a", " \t"), ("a " * 9, "x"), ("a", "x x x x"), ("a", "x")]
    write_pairs(raw / "train", rows)
    write_pairs(raw / "test", rows)
    assert prepare(raw, "--max-words", 8, "--max-ratio", 3) == 0
    out = capsys.readouterr().out
    assert "train: 2 of 6 pairs (dropped: empty 2, max_words 1, max_ratio 1)" in out
    assert "test: 6 of 6 pairs" in out
    assert sentences(raw / "bin", "train", "en") == ["a b", "a"]
    assert len(sentences(raw / "bin", "test", "de")) == 6
    test = load_split(prefix_of(raw / "bin", "test", PAIR, "en"))
    assert test[1].tolist() == [load_dictionary(raw / "bin", "en").eos()]


def test_separate_codes_and_dictionaries(raw):
    assert prepare(raw, "--separate-bpe") == 0
    made = raw / "bin"
    assert (made / "dict.en.txt").read_bytes() != (made / "dict.de.txt").read_bytes()
    assert (made / "bpecodes").read_bytes() == (made / "bpecodes.en").read_bytes()
    assert (made / "bpecodes.de").is_file()
    assert sentences(made, "test", "de") == (raw / "test.de").read_text().split("\n")[:-1]


def test_codes_and_dictionary_of_another_data_bin(raw):
    assert prepare(raw) == 0
    used = ["--bpe-codes", raw / "bin" / "bpecodes", "--srcdict", raw / "bin" / "dict.en.txt"]
    write_pairs(raw / "test", toy_pairs(7, 9))
    assert prepare(raw, *used, splits=["test"], out="more", merges=None) == 0
    assert (raw / "more" / "dict.de.txt").read_bytes() == (raw / "bin" / "dict.de.txt").read_bytes()
    assert len(sentences(raw / "more", "test", "en")) == 7
    assert not (raw / "more" / "train.en-de.en.bin").exists()


def test_gzip_and_several_test_sets(raw):
    for language in PAIR:
        path = raw / f"train.{language}"
        (raw / f"train.{language}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    both = f"{raw / 'test'},{raw / 'valid'}"
    assert prepare(raw, "--testpref", both, splits=("train", "valid")) == 0
    assert sentences(raw / "bin", "test1", "en") == sentences(raw / "bin", "valid", "en")
    assert (raw / "bin" / "test1.raw.de").is_file()


def test_workers_change_nothing(raw):
    write_pairs(raw / "train", toy_pairs(2500, 4))
    assert prepare(raw) == 0
    assert prepare(raw, "--workers", 2, out="two") == 0
    for path in (raw / "bin").iterdir():
        if path.name not in ("preprocess.log", "prepare.json"):
            assert path.read_bytes() == (raw / "two" / path.name).read_bytes(), path.name


def test_tokenizer_options_are_obeyed(raw):
    write_pairs(raw / "test", [("well-known & <s>", "a|b")])
    assert prepare(raw, out="moses") == 0
    assert (raw / "moses" / "test.tok.en").read_text() == ("well @-@ known &amp; &lt; s &gt;\n")
    assert prepare(raw, "--keep-hyphens", "--no-escape", out="options") == 0
    assert (raw / "options" / "test.tok.en").read_text() == "well-known & < s >\n"
    assert prepare(raw, "--tokenizer", "none", out="none") == 0
    assert (raw / "none" / "test.tok.en").read_text() == "well-known & <s>\n"


@pytest.mark.parametrize("tokenizer", ["moses", "none"])
def test_symbols_written_out_stay_text(raw, tokenizer):
    symbols = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "<gmlm mask>", "madeupword0000", "@@"]
    rows = [(symbol, symbol) for symbol in symbols]
    write_pairs(raw / "train", rows * 30)
    write_pairs(raw / "test", rows)
    options = ["--tokenizer", tokenizer, "--no-escape"]
    assert prepare(raw, *options, merges=200) == 0
    dictionary = load_dictionary(raw / "bin", "en")
    specials = {dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()}
    filler = {
        i
        for i, (s, n) in enumerate(zip(dictionary.symbols, dictionary.count))
        if s.startswith("madeupword") and n == 0
    }
    for split in ("train", "test"):
        data = load_split(prefix_of(raw / "bin", split, PAIR, "en"))
        for index in range(len(data)):
            assert not set(data[index].tolist()[:-1]) & (specials | filler)
    assert sentences(raw / "bin", "test", "en")[:5] == [
        " ".join(line.split()) for line in (raw / "bin" / "test.tok.en").read_text().split("\n")[:5]
    ]


def noise(rng):
    """One line of about everything, without a newline."""
    pieces = ["word", "Wort", "", " ", "  ", "\t", "\r", "\x00", "\ufeff", "\x0b", "\x0c", "\x1c"]
    pieces += ["\x1d", "\x1e", "\x1f", "\x7f", "\x85", "\u2028", "\u2029", "\xa0", "\u3000", "\xad"]
    pieces += ["\U0001f642", "\u202e\u05d0\u05d1", "e\u0301", "\ud7ff", "\uffff", "\U0010ffff"]
    pieces += ["<mask>", "<s>", "</s>", "<pad>", "<unk>", "<gmlm mask>", "@@", "@@ @@", "@-@"]
    pieces += ["madeupword0000", "DOTMULTI", "DOTDOTMULTI", "...", "&lt;", "http://x.y/?a=b", "' s"]
    pieces += ["#fairseq:overwrite", "</w>", "\u200b", "\u200d", "1,000.5", "a-b", "--", "\\n"]
    return "".join(rng.choice(pieces) + rng.choice(["", " "]) for _ in range(rng.randrange(12)))


def test_one_binarised_line_for_each_of_a_thousand_of_noise(raw):
    rng = random.Random(11)
    lines = [noise(rng) for _ in range(1000)]
    lines += ["", " ", "\r", "word " * 10_000, "x" * 20_000, "@@", ". " * 500]
    mixed = lines[:]
    rng.shuffle(mixed)
    write_pairs(raw / "valid", list(zip(lines, mixed)))
    write_pairs(raw / "test", [(f"{line}", f"w{i}") for i, line in enumerate(lines)])
    known = [(f"{word} {line}", f"w{i}") for word in "ab" for i, line in enumerate(lines)]
    write_pairs(raw / "train", [*toy_pairs(30, 1), *known])
    assert prepare(raw, merges=300) == 0
    made = raw / "bin"
    assert len(sentences(made, "valid", "de")) == len(lines)
    # The other side tells in which order the lines are.
    assert sentences(made, "test", "de") == [f"w{i}" for i in range(len(lines))]
    cleaned = (made / "test.raw.en").read_text(encoding="utf-8")
    assert cleaned.split("\n")[:-1] == cleaned.splitlines() == [clean_line(line) for line in lines]
    dictionary = load_dictionary(made, "en")
    specials = {dictionary.bos(), dictionary.pad(), dictionary.eos()}
    tokens = (made / "test.tok.en").read_text(encoding="utf-8").split("\n")
    data = load_split(prefix_of(made, "test", PAIR, "en"))
    for index, line in enumerate(tokens[:-1]):
        ids = data[index].tolist()
        assert not set(ids[:-1]) & specials
        if dictionary.unk() not in ids:
            text = dictionary.string(data[index], bpe_symbol="@@ ")
            assert text.split() == line.split()


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\n")),
        min_size=400,
        max_size=420,
    ),
    st.integers(0, 10**9),
)
def test_any_text_keeps_its_lines(tmp_path, lines, run):
    folder = tmp_path / str(run)
    folder.mkdir(exist_ok=True)
    write_pairs(folder / "train", toy_pairs(20, 1))
    write_pairs(folder / "test", [(line, str(i)) for i, line in enumerate(lines)])
    out = f"bin{len(list(folder.iterdir()))}"
    assert prepare(folder, splits=("train", "test"), out=out) == 0
    assert len(load_split(prefix_of(folder / out, "test", PAIR, "en"))) == len(lines)
    tokens = (folder / out / "test.tok.de").read_text().split("\n")[:-1]
    assert tokens == [str(i) for i in range(len(lines))]


def refused(capsys, status):
    assert status == 2
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith("fairseq-gmlm prepare: error: ")
    return error


def test_unequal_files(raw, capsys):
    (raw / "valid.de").write_text("x\n" * 8)
    error = refused(capsys, prepare(raw))
    assert "valid.en has 5 lines and" in error
    assert "valid.de has 8" in error
    assert not (raw / "bin").exists()


@pytest.mark.parametrize("bad", [b"caf\xe9\n", b"ok \xed\xb2\x80\n"])
def test_bad_bytes_then_mended_then_run_again(raw, capsys, bad):
    good = (raw / "train.de").read_bytes()
    (raw / "train.de").write_bytes(good[: good.index(b"\n") + 1] + bad + good)
    error = refused(capsys, prepare(raw))
    assert "train.de, line 2: byte" in error
    (raw / "train.de").write_bytes(good)
    error = refused(capsys, prepare(raw))
    assert "holds an interrupted prepare of something else" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bpe-codes", "x"], "give one of --bpe-merges"),
        (["--max-words", "0"], "--max-words 0: must be 1 or more"),
        (["--max-ratio", "0.5"], "--max-ratio 0.5: must be 1 or more"),
        (["--max-ratio", "nan"], "--max-ratio nan: must be 1 or more"),
        (["--workers", "0"], "--workers 0: must be 1 or more"),
        (["--bpe-merges", "0"], "--bpe-merges 0: must be 1 or more"),
        (["--srcdict", "none.txt"], "--srcdict: no such file: none.txt"),
        (["--target-lang", "en"], "--source-lang and --target-lang are both en"),
        (["--target-lang", "zh-tw"], "--target-lang 'zh-tw'"),
        (["--testpref", "nowhere/test"], "no such file: nowhere/test.en"),
        (["--testpref", "a,,b"], "--testpref 'a,,b': empty prefix"),
        (["--trainpref", "a,b"], "--trainpref a,b: one prefix, found 2"),
        (["--destdir", "a:b"], "--destdir a:b: fairseq splits paths"),
    ],
)
def test_wrong_options_say_what_is_wrong(raw, capsys, options, message):
    assert message in refused(capsys, prepare(raw, *options))
    assert not (raw / "bin").exists()


def test_a_folder_in_use(raw, capsys):
    assert prepare(raw) == 0
    assert "holds a finished data-bin" in refused(capsys, prepare(raw))
    (raw / "notes").mkdir()
    (raw / "notes" / "mine.txt").write_text("keep")
    assert "is not empty" in refused(capsys, prepare(raw, out="notes"))
    assert (raw / "notes" / "mine.txt").read_text() == "keep"
    (raw / "file").write_text("")
    assert "is a file" in refused(capsys, prepare(raw, out="file"))
    (raw / "empty").mkdir()
    assert prepare(raw, out="empty") == 0
    assert (raw / "empty" / "prepare.json").is_file()


def test_nothing_left_of_train(raw, capsys):
    write_pairs(raw / "train", [("", "x"), ("a", "")])
    assert "no pair is left of 2 (dropped: {'empty': 2})" in refused(capsys, prepare(raw))


def test_a_full_disk_is_named_and_leaves_no_data_bin(raw):
    # A limit on the size of files fails in the same calls as a disk without space.
    program = (
        "import resource, sys\n"
        "from fairseq_gmlm.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    write_pairs(raw / "train", toy_pairs(500, 1))
    options = ["prepare", "-s", "en", "-t", "de", "--trainpref", str(raw / "train")]
    options += ["--bpe-merges", "30", "--destdir", str(raw / "bin")]
    done = subprocess.run(
        [sys.executable, "-c", program, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().split("\n")[-1].endswith("File too large")
    assert not (raw / "bin").exists()
    assert main(options) == 0
    assert len(sentences(raw / "bin", "train", "en")) == 500


def test_a_killed_run_started_again_completes(raw, capsys):
    assert prepare(raw, out="whole") == 0
    write_pairs(raw / "more", toy_pairs(15_000, 8))
    arguments = ["-s", "en", "-t", "de", "--trainpref", raw / "train", "--validpref", raw / "more"]
    arguments += ["--bpe-merges", "30", "--destdir", raw / "bin"]
    command = [sys.executable, "-m", "fairseq_gmlm.cli.main", "prepare", *map(str, arguments)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while not (raw / "bin.partial" / "train.counts.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (raw / "bin").exists()
    before = (raw / "bin.partial" / "train.tok.en").stat().st_mtime_ns
    capsys.readouterr()
    other = [*map(str, arguments), "--max-words", "7"]
    assert "(max_words: None, now 7)" in refused(capsys, main(["prepare", *other]))
    assert (raw / "bin.partial" / "train.tok.en").stat().st_mtime_ns == before
    assert main(["prepare", *map(str, arguments)]) == 0
    assert len(load_split(prefix_of(raw / "bin", "valid", PAIR, "en"))) == 15_000
    for name in ("bpecodes", "dict.en.txt", "train.en-de.de.bin", "train.en-de.de.idx"):
        assert (raw / "bin" / name).read_bytes() == (raw / "whole" / name).read_bytes()
    assert not (raw / "bin.partial").exists()
