"""examples/quickstart/extract_data.py on hand-written pages, and the files it made."""

import gzip
import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


@pytest.fixture(scope="module")
def extract():
    spec = importlib.util.spec_from_file_location("extract_data", QUICKSTART / "extract_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGLISH = """<html><body><script>if (a < b) { p(); }</script>
<h1 id="hd_id1" dir="auto">Saving <span class="emph">your</span> documents now.</h1>
<p id="par_id2" class="paragraph">Press <span><span hidden="true" class="MAC">Command</span><span
 hidden="true">Ctrl</span></span>+S &amp; wait.<br> The file is saved now! Is it?</p>
<p id="par_id3">Only in English.</p>
<p id="par_id2">A repeated paragraph id.</p>
<div id="other">No paragraph.</div></body></html>"""
GERMAN = """<html><body>
<h1 id="hd_id1" dir="auto">Speichern <b>Ihrer</b> Dokumente jetzt.</h1>
<p id="par_id2" class="paragraph">Dr\u00fccken Sie <span><span class="MAC">Befehl</span><span
>Strg</span></span>+S und warten. Die Datei ist jetzt gespeichert! Ist sie?</p></body></html>"""


def test_paragraphs(extract):
    assert extract.read_paragraphs(ENGLISH) == {
        "hd_id1": "Saving your documents now.",
        "par_id2": "Press Ctrl+S & wait. The file is saved now! Is it?",
        "par_id3": "Only in English.",
    }


def test_sentences_are_paired_by_paragraph(extract):
    pages = extract.read_paragraphs(ENGLISH), extract.read_paragraphs(GERMAN)
    pairs = [pair for pair in extract.pair_sentences(*pages) if extract.is_sentence_pair(*pair)]
    assert pairs == [
        ("Saving your documents now.", "Speichern Ihrer Dokumente jetzt."),
        ("Press Ctrl+S & wait.", "Dr\u00fccken Sie Strg+S und warten."),
        ("The file is saved now!", "Die Datei ist jetzt gespeichert!"),
    ]


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("Two words.", "Zwei W\u00f6rter hier."),
        ("No full stop here", "Kein Punkt steht hier"),
        ("The same text here.", "The same text here."),
        ("Set a = b here.", "Hier a = b setzen."),
        ("Visit https://example.org for help.", "Hilfe gibt es dort im Netz."),
        ("One two three.", "Eins zwei drei vier f\u00fcnf sechs sieben acht neun."),
        ("1 2 3 45 67 89:", "Eins zwei drei vier f\u00fcnf:"),
    ],
)
def test_what_is_not_a_sentence_pair(extract, english, german):
    assert not extract.is_sentence_pair(english, german)


def page(*sentences):
    return "".join(f'<p id="p{i}">{text}</p>' for i, text in enumerate(sentences))


def names_of(extract, split, count):
    pages = (f"page{number}.html" for number in range(1000))
    return [name for name in pages if extract.split_of_page(name) == split][:count]


def test_training_pairs_share_no_side_with_held_out_ones(extract):
    train = names_of(extract, "train", 1)[0]
    test = names_of(extract, "test", 1)[0]
    valid = names_of(extract, "valid", 1)[0]
    english = {
        test: page("This is a test sentence.", "Another one is here."),
        valid: page("This one is for validation."),
        train: page(
            "This is a test sentence.", "This is only for training.", "A third one is here."
        ),
    }
    german = {
        test: page("Dies ist ein Testsatz.", "Hier ist noch einer."),
        valid: page("Dieser ist zum Validieren."),
        train: page(
            "Das ist ein Satz zum Testen.", "Dies ist zum Trainieren.", "Hier ist noch einer."
        ),
    }
    splits = extract.split_pairs(english, german)
    assert splits["train"] == [("This is only for training.", "Dies ist zum Trainieren.")]
    assert len(splits["test"]) == 2
    assert len(splits["valid"]) == 1


def deb(path, pages):
    """A package as dpkg-deb makes them: an ar archive with a tar archive inside."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as archive:
        for name, html in pages.items():
            member = tarfile.TarInfo(f"./usr/share/libreoffice/help/xx/text/{name}")
            data = html.encode("utf-8")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    parts = [(b"debian-binary", b"2.0\n"), (b"control.tar.xz", b"x" * 5)]
    parts.append((b"data.tar.xz", inner.getvalue()))
    with path.open("wb") as stream:
        stream.write(b"!<arch>\n")
        for name, data in parts:
            stream.write(name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"100644  ")
            stream.write(str(len(data)).encode().ljust(10) + b"`\n" + data)
            stream.write(b"\n" * (len(data) % 2))


def test_packages_folders_and_repeated_runs_agree(extract, tmp_path):
    name = names_of(extract, "train", 1)[0]
    deb(tmp_path / "en.deb", {name: ENGLISH})
    folder = tmp_path / "de" / "usr/share/libreoffice/help/de/text"
    folder.mkdir(parents=True)
    (folder / name).write_text(GERMAN, encoding="utf-8")
    arguments = [str(tmp_path / "en.deb"), str(tmp_path / "de"), "--output"]
    assert extract.main([*arguments, str(tmp_path / "one")]) == 0
    assert extract.main([*arguments, str(tmp_path / "two"), "--max-words", "5"]) == 0
    one = (tmp_path / "one" / "train.en.gz").read_bytes()
    assert gzip.decompress(one).decode().splitlines() == [
        "Saving your documents now.",
        "Press Ctrl+S & wait.",
        "The file is saved now!",
    ]
    assert one == (tmp_path / "two" / "train.en.gz").read_bytes()
    assert one[4:8] == bytes(4), "a date in the header would change with every run"


def test_wrong_packages_are_named(extract, tmp_path):
    (tmp_path / "x.deb").write_bytes(b"not an archive")
    with pytest.raises(SystemExit, match=r"x\.deb: not a Debian package"):
        extract.read_pages(tmp_path / "x.deb")


def test_the_shipped_files_are_aligned_short_and_apart():
    data = {}
    for split in ("train", "valid", "test"):
        sides = [
            gzip.decompress((QUICKSTART / "data" / f"{split}.{language}.gz").read_bytes())
            .decode("utf-8")
            .split("\n")[:-1]
            for language in ("en", "de")
        ]
        assert len(sides[0]) == len(sides[1])
        assert all(3 <= len(line.split()) <= 12 for side in sides for line in side)
        data[split] = sides
    assert [len(data[split][0]) for split in ("train", "valid", "test")] == [12378, 631, 434]
    for side in (0, 1):
        assert not set(data["train"][side]) & {*data["valid"][side], *data["test"][side]}
