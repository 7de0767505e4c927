"""Reading parallel text line by line, never whole.

Only ``\\n`` ends a line here. Python's text files also end one at ``\\r``, and ``str.splitlines`` at
eight other characters, which is how corpora lose their alignment.
"""

import contextlib
import zlib
from pathlib import Path
from typing import BinaryIO, Iterator, List, Optional, Tuple

from tqdm import tqdm

from fairseq_gmlm.data.files import open_raw
from fairseq_gmlm.errors import UserError


def resolve(prefix: str, language: str) -> Path:
    """The file of one language: ``PREFIX.LANGUAGE`` or, compressed, ``PREFIX.LANGUAGE.gz``.

    Raises:
        UserError: when neither is there.
    """
    plain = Path(f"{prefix}.{language}")
    compressed = Path(f"{prefix}.{language}.gz")
    for path in (plain, compressed):
        if path.is_file():
            return path
    raise UserError(f"no such file: {plain} (nor {compressed.name})")


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line[error.start : error.end]
        raise UserError(
            f"{path}, line {number}: byte {error.start + 1} is not UTF-8 ({bad.hex(' ')}, "
            f"{error.reason}): convert the file, for example with iconv"
        ) from error


def _raw_lines(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    try:
        yield from stream
    except (EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged or cut short ({error})") from error
    except OSError as error:
        # gzip's BadGzipFile is an OSError without an errno.
        if error.errno is not None:
            raise
        raise UserError(f"{path}: not a gzip file ({error})") from error


def read_lines(path: Path, progress: Optional[tqdm] = None) -> Iterator[str]:
    """Lines of a UTF-8 file, without their ``\\n``; decompressed when it ends in ``.gz``.

    Args:
        progress: is moved to the number of bytes read of the file as stored.

    Raises:
        UserError: with file and line for bytes that are not UTF-8 (lone surrogates included), and
            for damaged gzip files.
    """
    with path.open("rb") as raw, contextlib.closing(open_raw(path, raw)) as stream:
        for number, line in enumerate(_raw_lines(path, stream), start=1):
            yield _decode(path, number, line[:-1] if line.endswith(b"\n") else line)
            if progress is not None and number % 1000 == 0:
                progress.update(raw.tell() - progress.n)
        if progress is not None:
            progress.update(path.stat().st_size - progress.n)


def read_pairs(source: Path, target: Path, label: str) -> Iterator[Tuple[str, str]]:
    """Aligned lines of two files, with a progress bar.

    Raises:
        UserError: with both counts when one file has more lines than the other.
    """
    with tqdm(
        total=source.stat().st_size, unit="B", unit_scale=True, desc=label, disable=None
    ) as bar:
        sides = read_lines(source, bar), read_lines(target)
        count = 0
        for line in sides[0]:
            other = next(sides[1], None)
            if other is None:
                counts = count + 1 + sum(1 for _ in sides[0]), count
                raise _unequal(source, target, counts)
            count += 1
            yield line, other
        surplus = sum(1 for _ in sides[1])
        if surplus:
            raise _unequal(source, target, (count, count + surplus))


def _unequal(source: Path, target: Path, counts: Tuple[int, int]) -> UserError:
    return UserError(
        f"{source} has {counts[0]} lines and {target} has {counts[1]}: "
        "parallel files must have equally many"
    )


def batches(pairs: Iterator[Tuple[str, str]], size: int) -> Iterator[List[Tuple[str, str]]]:
    """Consecutive lists of ``size`` pairs, the last one shorter."""
    batch: List[Tuple[str, str]] = []
    for pair in pairs:
        batch.append(pair)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
