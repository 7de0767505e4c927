"""A thousand lines of every kind through distill, compare and fill: a line for a line, in order."""

import json
import re

import lm_support as lm
import pytest
import yaml
from helpers import fuzz
from toy_teacher import toy_pairs, write_pairs

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.databin import Languages, load_dictionary, load_split, prefix_of

PAIR = Languages("en", "de")
WORDS = [f"w{i}" for i in range(12)]
COUNT = 1000


def gmlm(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def noisy(toy_data, tmp_path_factory):
    """A data-bin with the toy's dictionary, noise in the sources of train and test."""
    folder = tmp_path_factory.mktemp("noisy")
    lines = fuzz.text(WORDS, COUNT, seed=5)
    # Training drops pairs with an empty side; a word keeps them all.
    write_pairs(folder / "train", [(f"w1 {line}", f"v{i % 12}") for i, line in enumerate(lines)])
    write_pairs(folder / "test", [(line, f"v{i % 12}") for i, line in enumerate(lines)])
    write_pairs(folder / "valid", toy_pairs(5, 1))
    prefixes = [x for n in ("train", "valid", "test") for x in (f"--{n}pref", folder / n)]
    codes, dictionary = toy_data / "bpecodes", toy_data / "dict.en.txt"
    options = ["--bpe-codes", codes, "--srcdict", dictionary, "--destdir", folder / "bin"]
    assert gmlm("prepare", "-s", "en", "-t", "de", *prefixes, *options) == 0
    return folder / "bin"


def plain(ids, dictionary):
    """Whether a target is ordinary words and one end."""
    specials = {dictionary.bos(), dictionary.pad(), dictionary.unk()}
    return ids[-1] == dictionary.eos() and not {*ids[:-1]} & {*specials, dictionary.eos()}


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_distill_gives_every_source_a_target(noisy, toy_teacher, tmp_path, engine, capsys):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    out = tmp_path / "bin"
    status = gmlm(
        *("distill", "--path", toy_teacher, "--data", noisy, "--destdir", out, "--cpu"),
        *("--engine", engine, "--beam", 2, "--max-len-b", 8, "--threads", 1),
    )
    assert status == 0
    dictionary = load_dictionary(out, "de")
    targets = load_split(prefix_of(out, "train", PAIR, "de"))
    assert len(targets) == COUNT
    assert all(plain(targets[i].tolist(), dictionary) for i in range(COUNT))
    counts = json.loads((out / "distill.json").read_text("utf-8"))["counts"]
    # What is longer than the position table keeps its reference, and is counted.
    assert counts["sentences"] == COUNT and 0 < COUNT - counts["translated"] < 50
    assert "kept the reference of" in capsys.readouterr().out


def test_compare_writes_a_line_for_every_source(noisy, toy_teacher, tmp_path):
    spec = {
        "data": str(noisy),
        "batch_size": 64,
        "latency_sentences": 1,
        "systems": [{"name": "teacher", "path": str(toy_teacher), "options": {"max_len_b": 6}}],
    }
    (tmp_path / "systems.yaml").write_text(yaml.safe_dump(spec), "utf-8")
    status = gmlm("compare", tmp_path / "systems.yaml", "--outputs", tmp_path / "out")
    assert status == 0
    found = (tmp_path / "out" / "teacher.txt").read_text("utf-8").split("\n")
    assert len(found) == COUNT + 1 and found[-1] == ""
    assert not re.search(r"<(mask|s|/s|pad|gmlm mask)>|@@", "\n".join(found))


def test_fill_gives_every_template_a_line():
    lines = [line.split(b"\n")[0] for line in fuzz.lines([*lm.NAMES, "sees", "a"], COUNT, seed=6)]
    lines = [line + b" ___ ." if number % 2 else line for number, line in enumerate(lines)]
    good = {number: f"anna sees a {line}" for number, line in ((3, "___{1,2} cat ."),)}
    for number, template in good.items():
        lines[number] = template.encode()
    stdin = b"\n".join(lines).decode("utf-8", "surrogateescape") + "\n"
    code, out, err = lm.on_model("fill", "--keep-unknown", stdin=stdin)
    found = out.split("\n")
    assert code == 1  # some are no text, or too long
    assert len(found) == COUNT + 1 and found[-1] == ""
    assert found[3] == "anna sees a black cat ."
    told = {int(number) for number in re.findall(r"^standard input, line (\d+)", err, re.MULTILINE)}
    assert 50 < len(told) < COUNT // 2
    for number, line in enumerate(found[:-1], 1):
        assert line == "" if number in told else "___" not in line, number
    assert "<gmlm mask" not in "".join(found[n] for n in range(COUNT) if b"<gmlm" not in lines[n])
