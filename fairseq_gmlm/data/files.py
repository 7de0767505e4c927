"""Files that are either whole or not there: temporary names, renames, locks, hashes."""

import contextlib
import errno
import fcntl
import gzip
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import IO, Any, BinaryIO, Dict, Iterator, Optional

from fairseq_gmlm.errors import UserError

BLOCK = 1 << 20
# No space, a file beyond its limit, a quota used up.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@contextlib.contextmanager
def named_when_full(path: Path) -> Iterator[None]:
    """Say where a disk is full; what fails is a write, and its error names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = str(path)
        raise


def check_target(path: Optional[str], option: str) -> None:
    """Refuse a file that could not be written, before the work that it is to hold.

    Raises:
        UserError: its folder is not there, or it is a folder itself.
    """
    if path is None:
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise UserError(f"{option} {path}: no such folder: {folder}; make it first")
    if Path(path).is_dir():
        raise UserError(f"{option} {path} is a folder: give the name of a file")


@contextlib.contextmanager
def atomic_write(path: Path, binary: bool = False) -> Iterator[IO[Any]]:
    """A stream whose content appears under ``path`` when the block ends well, and not before.

    Text is UTF-8 and only ``\\n`` is written as the end of a line. Devices and pipes, such as
    ``/dev/stdout``, are written to as they are: a rename would put a file in their place.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    encoding = {} if binary else {"encoding": "utf-8", "newline": "\n"}
    if path.exists() and not path.is_file() and not path.is_dir():
        with named_when_full(path), path.open("wb" if binary else "w", **encoding) as stream:
            yield stream
        return
    try:
        with temporary.open("wb" if binary else "w", **encoding) as stream:
            yield stream
            stream.flush()
            # Without this a power cut can leave the new name with no content behind it.
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        full = isinstance(error, OSError) and error.errno in _FULL and error.filename is None
        if full or (isinstance(error, OSError) and error.filename == str(temporary)):
            error.filename = str(path)
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically."""
    with atomic_write(path) as stream:
        json.dump(value, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


def read_json(path: Path) -> Dict[str, Any]:
    """Read a JSON file that this package wrote.

    Raises:
        UserError: when it is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}): remove it and run again") from error


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def copy_file(source: Path, destination: Path) -> None:
    """Copy bytes, atomically."""
    with source.open("rb") as reader, atomic_write(destination, binary=True) as writer:
        shutil.copyfileobj(reader, writer, BLOCK)


def open_raw(path: Path, raw: BinaryIO) -> BinaryIO:
    """``raw`` itself, or decompressed when the name ends in ``.gz``."""
    return gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw


@contextlib.contextmanager
def folder_lock(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Keep other processes out of a folder; the system lets go when this process ends.

    Raises:
        UserError: when another process works in the folder.
    """
    with (folder / name).open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"{folder}: another process is working in it") from error
        yield


def first_difference(old: Dict[str, Any], new: Dict[str, Any]) -> Optional[str]:
    """``name: old value, now new value`` for the first key that differs, in ``new``'s order."""
    for key in [*new, *(key for key in old if key not in new)]:
        if old.get(key) != new.get(key):
            return f"{key}: {old.get(key)!r}, now {new.get(key)!r}"
    return None


@contextlib.contextmanager
def plain_os_errors() -> Iterator[None]:
    """Turn a full disk, a read-only folder and the like into one line that names the file.

    Raises:
        UserError: for any ``OSError`` inside the block.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise UserError(f"{where}{error.strerror or error}") from error
