"""Sequence-level knowledge distillation: a data-bin whose train targets are a teacher's."""

import hashlib
import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Optional

from tqdm import tqdm

from fairseq_gmlm.data import databin
from fairseq_gmlm.data.beam_search import SearchOptions, build_engine
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.data.chunk_translation import forbidden_symbols, translate_chunk
from fairseq_gmlm.data.chunks import ChunkStore
from fairseq_gmlm.data.files import first_difference, folder_lock, read_json, sha256_of, write_json
from fairseq_gmlm.data.teacher import load_teacher
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)

SIDE_CAR = "distill.json"


@dataclass(frozen=True)
class Distillation:
    """What to distil and how.

    Attributes:
        teacher: checkpoint of an autoregressive model.
        data: data-bin with the raw targets.
        destination: data-bin to make.
        engine: ``fairseq`` or ``ctranslate2``.
        compute_type: precision of ctranslate2; None for fairseq.
        search: beam search options.
        chunk_size: sentences between two points that an interrupted run goes on from.
        teacher_data: folder with the teacher's dictionaries.
    """

    teacher: Path
    data: Path
    destination: Path
    engine: str
    compute_type: Optional[str]
    search: SearchOptions
    chunk_size: int
    teacher_data: Optional[Path] = None

    @property
    def work(self) -> Path:
        """Where the unfinished work lives, next to the destination."""
        return self.destination.with_name(self.destination.name + ".partial")

    def options(self) -> Dict[str, Any]:
        """Everything that decides the result, as JSON: what a resumed run must share."""
        pair = databin.find_languages(self.data)
        files = [databin.prefix_of(self.data, "train", pair, language) for language in pair]
        paths = [
            file.with_name(file.name + suffix) for file in files for suffix in (".bin", ".idx")
        ]
        paths += [self.data / f"dict.{language}.txt" for language in pair]
        return {
            "teacher_sha256": sha256_of(self.teacher),
            "engine": self.engine,
            "compute_type": self.compute_type,
            **asdict(self.search),
            "chunk_size": self.chunk_size,
            "data": {path.name: sha256_of(path) for path in paths},
        }


def fingerprint_of(options: Dict[str, Any]) -> str:
    """A short hash of :meth:`Distillation.options`."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def _tidy(job: Distillation, options: Dict[str, Any]) -> None:
    """Remove the work folder of a run that was killed when nothing else was left to do."""
    record = job.work / "options.json"
    if record.is_file() and first_difference(read_json(record), options) is None:
        shutil.rmtree(job.work)


def claim(job: Distillation) -> Optional[Dict[str, Any]]:
    """Take the work folder, new or from an interrupted run of the same distillation.

    Returns:
        the options, or None when the destination holds this very distillation, finished.

    Raises:
        UserError: for files that are missing, and for a destination or work folder with anything
            else in it, naming the first option that differs.
    """
    if not job.teacher.is_file():
        raise UserError(f"--path: no such file: {job.teacher}")
    if not job.data.is_dir():
        raise UserError(f"--data: no such folder: {job.data}")
    load_checkpoint(job.teacher, mmap=True)  # before a folder is made for what cannot be read
    if job.destination.resolve() == job.data.resolve():
        raise UserError(f"--destdir {job.destination} is the --data folder: choose another")
    if (job.data / SIDE_CAR).exists():
        raise UserError(f"--data {job.data} is distilled already: give the folder with raw targets")
    if any(job.data.glob("train[0-9]*.idx")):
        raise UserError(
            f"--data {job.data} holds several train sets (train1 ...): merge them first"
        )
    options = job.options()
    if job.destination.exists():
        finished = job.destination / SIDE_CAR
        if finished.is_file():
            difference = first_difference(read_json(finished)["options"], options)
            if difference is None:
                _tidy(job, options)
                return None
            raise UserError(
                f"--destdir {job.destination} holds another distillation ({difference}): "
                "remove it or choose another folder"
            )
        if not job.destination.is_dir() or any(job.destination.iterdir()):
            raise UserError(f"--destdir {job.destination} is not empty: choose another folder")
    job.work.mkdir(parents=True, exist_ok=True)
    record = job.work / "options.json"
    if record.exists():
        difference = first_difference(read_json(record), options)
        if difference is not None:
            raise UserError(
                f"{job.work} holds unfinished work of another distillation ({difference}): "
                "remove it to start anew"
            )
    else:
        write_json(record, options)
    return options


def store_of(job: Distillation, options: Dict[str, Any]) -> ChunkStore:
    """The chunk files of a claimed distillation."""
    pair = databin.find_languages(job.data)
    prefix = databin.prefix_of(job.data, "train", pair, pair.source)
    return ChunkStore(
        job.work, databin.count_sentences(prefix), job.chunk_size, fingerprint_of(options)
    )


def run_shard(
    job: Distillation,
    options: Dict[str, Any],
    shard: int = 0,
    shards: int = 1,
    max_tokens: Optional[int] = None,
    max_sentences: Optional[int] = None,
    cpu: bool = False,
    threads: int = 0,
) -> None:
    """Translate the chunks of one shard that are not there yet.

    Args:
        job, options: see :func:`claim`.
        shard, shards: which part of how many.
        max_tokens: source tokens of a batch, padding counted; None: what suits the engine.
        max_sentences: sentences of a batch.
        cpu: do not use a GPU.
        threads: CPU threads; 0: torch's.
    """
    store = store_of(job, options)
    chunks = store.of_shard(shard, shards)
    todo = [index for index in chunks if not store.path_of(index).exists()]
    logger.info("%s of %s chunks to do in shard %s of %s", len(todo), len(chunks), shard, shards)
    if not todo:
        return
    pair = databin.find_languages(job.data)
    with folder_lock(job.work, f".lock-{shard}-of-{shards}"):
        teacher = load_teacher(job.teacher, job.data, pair, job.teacher_data)
        prefix = databin.prefix_of(job.data, "train", pair, teacher.languages.source)
        sources = databin.load_split(prefix)
        max_source = teacher.model.max_positions()[0]
        engine = build_engine(
            job.engine, teacher, job.search, job.compute_type, cpu=cpu, threads=threads
        )
        if max_tokens is None:
            max_tokens = engine.max_tokens
        total = sum(len(store.range_of(index)) for index in chunks)
        done = total - sum(len(store.range_of(index)) for index in todo)
        forbidden = forbidden_symbols(teacher.target_dictionary)
        with tqdm(total=total, initial=done, unit=" lines", desc="distilling", disable=None) as bar:
            for index in todo:
                batch = [sources[number].tolist()[:-1] for number in store.range_of(index)]
                chunk = translate_chunk(
                    batch, engine, forbidden, max_source, max_tokens, max_sentences, bar
                )
                store.write(index, chunk)
