"""Distilled targets on disk, one file for every few thousand sentences.

A file is written under another name and renamed, so it is there whole or not at all: after a kill
at any moment, what is missing is what has to be done.
"""

import zipfile
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Iterator, List

import numpy as np

from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.errors import UserError


class Outcome(IntEnum):
    """What became of one sentence; all but the first keep the reference as target."""

    TRANSLATED = 0
    EMPTY_SOURCE = 1
    EMPTY_OUTPUT = 2
    SOURCE_TOO_LONG = 3


@dataclass
class Chunk:
    """Targets of consecutive sentences, in order.

    Attributes:
        targets: token ids of each sentence without the end symbol; empty unless translated.
        outcomes: one for each sentence.
        seconds: wall-clock time it took.
    """

    targets: List[List[int]]
    outcomes: List[Outcome]
    seconds: float


@dataclass(frozen=True)
class ChunkStore:
    """The chunk files of one distillation.

    Attributes:
        folder: where they are.
        sentences: number of sentences of the whole train split.
        size: sentences of each chunk but the last.
        fingerprint: hash of teacher, options and data, stored in every file.
    """

    folder: Path
    sentences: int
    size: int
    fingerprint: str

    def __len__(self) -> int:
        return -(-self.sentences // self.size)

    def range_of(self, index: int) -> range:
        """Numbers of the sentences of a chunk."""
        return range(index * self.size, min((index + 1) * self.size, self.sentences))

    def path_of(self, index: int) -> Path:
        """File of a chunk."""
        return self.folder / f"chunk-{index:06d}.npz"

    def of_shard(self, shard: int, shards: int) -> List[int]:
        """Chunks of one shard: every ``shards``-th, so that all shards get all kinds of text."""
        return list(range(shard, len(self), shards))

    def missing(self) -> List[int]:
        """Chunks that are not there."""
        return [index for index in range(len(self)) if not self.path_of(index).exists()]

    def write(self, index: int, chunk: Chunk) -> None:
        """Write one chunk, atomically."""
        flat = np.array([token for target in chunk.targets for token in target], dtype=np.int32)
        with atomic_write(self.path_of(index), binary=True) as stream:
            np.savez(
                stream,
                targets=flat,
                lengths=np.array([len(target) for target in chunk.targets], dtype=np.int32),
                outcomes=np.array(chunk.outcomes, dtype=np.uint8),
                seconds=np.array(chunk.seconds),
                fingerprint=np.array(self.fingerprint),
            )

    def read(self, index: int) -> Chunk:
        """Read one chunk.

        Raises:
            UserError: for a file that is damaged, incomplete or of another distillation.
        """
        path = self.path_of(index)
        try:
            with np.load(path, allow_pickle=False) as data:
                fields = {name: data[name] for name in data.files}
            lengths, outcomes = fields["lengths"], fields["outcomes"]
            fingerprint = str(fields["fingerprint"])
            pieces = np.split(fields["targets"], np.cumsum(lengths)[:-1])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(f"{path}: damaged ({error}): remove it and distil again") from error
        if fingerprint != self.fingerprint:
            raise UserError(f"{path} belongs to another distillation: remove it")
        if not len(lengths) == len(outcomes) == len(self.range_of(index)):
            raise UserError(
                f"{path} holds {len(lengths)} sentences instead of {len(self.range_of(index))}: "
                "remove it and distil again"
            )
        return Chunk(
            targets=[piece.tolist() for piece in pieces],
            outcomes=[Outcome(int(value)) for value in outcomes],
            seconds=float(fields["seconds"]),
        )

    def read_all(self) -> Iterator[Chunk]:
        """All chunks in order.

        Raises:
            UserError: naming how many are missing.
        """
        missing = self.missing()
        if missing:
            names = ", ".join(str(index) for index in missing[:5])
            raise UserError(
                f"{self.folder}: {len(missing)} of {len(self)} chunks are missing "
                f"({names}{' ...' if len(missing) > 5 else ''}): run the shards that make them"
            )
        for index in range(len(self)):
            yield self.read(index)
