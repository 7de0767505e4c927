"""Whether the binarised files of a split are as long as they say: a cut one fails late, or never."""

import glob
import struct
from pathlib import Path

import numpy as np
from fairseq import utils

from fairseq_gmlm.errors import UserError

# The header of fairseq's memory-mapped index: magic, version, dtype, number of items.
_MAGIC = b"MMIDIDX\x00\x00"
_OTHERS = (b"TNTIDX\x00\x00", b"HUFFIDX\x00")
_HEADER = struct.Struct("<9sQBQ")
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 8, 8: 2, 9: 4, 10: 8}


def check_index(path: Path) -> None:
    """Refuse an index that is cut, or whose ``.bin`` is missing or cut.

    Other formats than fairseq's default are left to fairseq.

    Raises:
        UserError: naming the file.
    """
    with path.open("rb") as stream:
        header = stream.read(_HEADER.size)
        if header[:8] in _OTHERS:
            return
        again = "make the folder anew, or copy it anew"
        if len(header) < _HEADER.size or header[:9] != _MAGIC:
            raise UserError(f"{path}: damaged or cut short: {again}")
        _, _, code, count = _HEADER.unpack(header)
        # int32 sizes, then int64 places in bytes.
        if path.stat().st_size < _HEADER.size + 12 * count:
            raise UserError(f"{path}: cut short, it should hold {count} sentences: {again}")
        if count:
            stream.seek(_HEADER.size + 4 * (count - 1))
            size = int(np.frombuffer(stream.read(4), np.int32)[0])
            stream.seek(_HEADER.size + 4 * count + 8 * (count - 1))
            place = int(np.frombuffer(stream.read(8), np.int64)[0])
    binary = path.with_suffix(".bin")
    if not binary.is_file():
        raise UserError(f"no such file: {binary}, though {path.name} is there: {again}")
    if count and binary.stat().st_size < place + size * _ITEM_BYTES.get(code, 1):
        raise UserError(f"{binary}: cut short, {path.name} tells of more: {again}")


def check_split(folder: Path, split: str) -> None:
    """Check all indices of a split in a data-bin; that there are any is not asked.

    Raises:
        UserError: naming the first file at fault.
    """
    for path in sorted(folder.glob(f"{glob.escape(split)}.*idx")):
        check_index(path)


def data_folder(data: str, epoch: int) -> Path:
    """The folder of an epoch, as fairseq chooses it: several, joined by ``:``, take turns."""
    folders = utils.split_paths(data)
    return Path(folders[(epoch - 1) % len(folders)])
