"""Extract the quickstart's English-German sentences from LibreOffice's help.

Debian ships the help as one package per language, and its HTML carries the same paragraph id in
every language, so paragraphs match exactly. Inside a paragraph, sentences are paired where both
sides have the same number of them. Whole pages go to train, valid or test, and a training pair
that shares a side with valid or test is dropped.

    apt-get download libreoffice-help-en-us libreoffice-help-de
    python extract_data.py libreoffice-help-en-us_*.deb libreoffice-help-de_*.deb --output data

Either package may also be given as a folder it was unpacked to. Needs Python's own library only.
"""

import argparse
import gzip
import hashlib
import io
import re
import sys
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from typing import BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple

Pair = Tuple[str, str]

SPLITS = ("train", "valid", "test")
HELP_PAGE = re.compile(r"usr/share/libreoffice/help/[^/]+/text/(?P<page>.+\.html)$")
PARAGRAPHS = {"p", "h1", "h2", "h3", "h4", "h5", "h6"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
# Alternatives for one operating system stand side by side in the text: only the common one stays.
ALTERNATIVES = {"MAC", "UNIX", "WIN"}
SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-ZÄÖÜ"])|(?<=:) +(?=[A-ZÄÖÜ])')
CODE = re.compile(r"[=<>{}\\|]|https?://")
MIN_WORDS, MAX_WORDS = 3, 40
MAX_RATIO = 2.7
MIN_LETTERS = 0.75


class ParagraphParser(HTMLParser):
    """Collects ``texts``: paragraph id to text, the first one where a page repeats an id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: Dict[str, str] = {}
        self._open: List[Tuple[str, bool]] = []  # tag, and whether its text is left out
        self._paragraph: Optional[Tuple[str, int]] = None  # id, depth
        self._parts: List[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[Tuple[str, Optional[str]]]) -> None:
        if tag in VOID:
            return
        attributes = dict(attrs)
        if self._paragraph is None and tag in PARAGRAPHS and attributes.get("id"):
            self._paragraph = (attributes["id"] or "", len(self._open))
            self._parts = []
        self._open.append((tag, attributes.get("class") in ALTERNATIVES))

    def handle_endtag(self, tag: str) -> None:
        if all(name != tag for name, _ in self._open):
            return
        while self._open:
            name, _ = self._open.pop()
            if self._paragraph is not None and len(self._open) == self._paragraph[1]:
                text = " ".join("".join(self._parts).split())
                self.texts.setdefault(self._paragraph[0], text)
                self._paragraph = None
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._paragraph is not None:
            inside = self._open[self._paragraph[1] :]
            if not any(left_out for _, left_out in inside):
                self._parts.append(data)


def read_paragraphs(html: str) -> Dict[str, str]:
    """Paragraph id to text of one help page, in the page's order."""
    parser = ParagraphParser()
    parser.feed(html)
    parser.close()
    return parser.texts


def is_sentence_pair(english: str, german: str, max_words: int = MAX_WORDS) -> bool:
    """Whether two matched sentences are prose of about the same length, not code or a label."""
    if not english or not german or english == german or CODE.search(english + german):
        return False
    lengths = len(english.split()), len(german.split())
    if min(lengths) < MIN_WORDS or max(lengths) > max_words:
        return False
    if max(lengths) > MAX_RATIO * min(lengths):
        return False
    for text in (english, german):
        letters = sum(character.isalpha() or character == " " for character in text)
        if text[-1] not in ".:?!" or letters < MIN_LETTERS * len(text):
            return False
    return True


def pair_sentences(english: Dict[str, str], german: Dict[str, str]) -> Iterator[Pair]:
    """Sentence pairs of one page: same paragraph id, same number of sentences on both sides."""
    for paragraph_id, text in english.items():
        ours = SENTENCE_END.split(text)
        theirs = SENTENCE_END.split(german.get(paragraph_id, ""))
        if len(ours) == len(theirs):
            yield from zip(ours, theirs)


def split_of_page(page: str) -> str:
    """The split that a page belongs to: 4 % test, 4 % valid, by a hash of its path."""
    bucket = int(hashlib.md5(page.encode("utf-8")).hexdigest(), 16) % 100
    return "test" if bucket < 4 else "valid" if bucket < 8 else "train"


def split_pairs(english: Dict[str, str], german: Dict[str, str]) -> Dict[str, List[Pair]]:
    """Pairs of each split, without repetitions, and no side of valid or test in train.

    Args:
        english, german: page path, such as ``swriter/main.html``, to its HTML.
    """
    chosen: Dict[str, List[Pair]] = {name: [] for name in SPLITS}
    seen = set()
    for page in sorted(english.keys() & german.keys()):
        paragraphs = read_paragraphs(english[page]), read_paragraphs(german[page])
        for pair in pair_sentences(*paragraphs):
            if pair not in seen and is_sentence_pair(*pair):
                # A sentence that several pages share belongs to the first of them.
                seen.add(pair)
                chosen[split_of_page(page)].append(pair)
    held_out = chosen["valid"] + chosen["test"]
    english_sides, german_sides = ({pair[side] for pair in held_out} for side in (0, 1))
    chosen["train"] = [
        pair
        for pair in chosen["train"]
        if pair[0] not in english_sides and pair[1] not in german_sides
    ]
    return chosen


def _archive_member(package: Path) -> BinaryIO:
    """The compressed tar archive with the files of a .deb, which is an ``ar`` archive."""
    with package.open("rb") as stream:
        if stream.read(8) != b"!<arch>\n":
            sys.exit(f"{package}: not a Debian package")
        while True:
            header = stream.read(60)
            if len(header) < 60:
                sys.exit(f"{package}: no data archive inside; unpack it with dpkg-deb -x")
            size = int(header[48:58])
            if header.startswith(b"data.tar"):
                return io.BytesIO(stream.read(size))
            stream.seek(size + size % 2, io.SEEK_CUR)


def read_pages(package: Path) -> Dict[str, str]:
    """Page path to HTML of one language, from a .deb or from the folder it was unpacked to."""
    pages: Dict[str, str] = {}
    if package.is_dir():
        for path in package.rglob("*.html"):
            match = HELP_PAGE.search(path.as_posix())
            if match:
                pages[match["page"]] = path.read_text(encoding="utf-8")
        return pages
    try:
        with tarfile.open(fileobj=_archive_member(package)) as archive:
            for member in archive:
                match = HELP_PAGE.search(member.name)
                if match and member.isfile():
                    pages[match["page"]] = archive.extractfile(member).read().decode("utf-8")
    except tarfile.ReadError as error:
        sys.exit(f"{package}: {error}; unpack it with dpkg-deb -x and give the folder")
    return pages


def write_gzip(path: Path, lines: Sequence[str]) -> None:
    """Write lines compressed, the same bytes every time: no date and no name in the header."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as stream:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))


def main(argv: Optional[List[str]] = None) -> int:
    """Write ``{train,valid,test}.{en,de}.gz`` and print the number of pairs of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("english", type=Path, help="libreoffice-help-en-us: .deb or folder")
    parser.add_argument("german", type=Path, help="libreoffice-help-de: .deb or folder")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--max-words", type=int, default=12, help="longest side of a pair kept")
    args = parser.parse_args(argv)
    languages = read_pages(args.english), read_pages(args.german)
    for package, pages in zip((args.english, args.german), languages):
        if not pages:
            sys.exit(f"{package}: holds no help pages")
    args.output.mkdir(parents=True, exist_ok=True)
    for name, pairs in split_pairs(*languages).items():
        short = [p for p in pairs if max(len(side.split()) for side in p) <= args.max_words]
        for side, language in enumerate(("en", "de")):
            write_gzip(args.output / f"{name}.{language}.gz", [pair[side] for pair in short])
        print(f"{name}: {len(short)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
