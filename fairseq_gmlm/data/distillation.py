"""Sequence-level knowledge distillation: a data-bin whose train targets are a teacher's."""

import hashlib
import json
import logging
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
from fairseq.data import indexed_dataset
from tqdm import tqdm

from fairseq_gmlm.data import databin
from fairseq_gmlm.data.beam_search import Engine, SearchOptions, build_engine
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.data.chunks import Chunk, ChunkStore, Outcome
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.data.files import (
    copy_file,
    first_difference,
    folder_lock,
    read_json,
    sha256_of,
    write_json,
)
from fairseq_gmlm.data.length_ratios import LengthRatios
from fairseq_gmlm.data.teacher import Teacher, direction_of, load_teacher
from fairseq_gmlm.data.versions import installed_versions
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


def batches_by_length(
    lengths: Sequence[int], max_tokens: Optional[int], max_sentences: Optional[int]
) -> Iterator[List[int]]:
    """Indices in batches of similar length, shortest first.

    Args:
        lengths: tokens of each sentence.
        max_tokens: limit of sentences times longest sentence; one sentence may exceed it.
        max_sentences: limit of sentences.
    """
    batch: List[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        too_many = max_sentences is not None and len(batch) == max_sentences
        too_long = max_tokens is not None and (len(batch) + 1) * lengths[index] > max_tokens
        if batch and (too_many or too_long):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def translate_chunk(
    sources: Sequence[List[int]],
    engine: Engine,
    forbidden: Sequence[int],
    max_source: int,
    max_tokens: Optional[int],
    max_sentences: Optional[int],
    progress: Optional[tqdm] = None,
) -> Chunk:
    """Translate consecutive sentences, sorted by length for speed, answered in order.

    Args:
        sources: token ids without the end symbol.
        forbidden: symbols that no target may hold, such as padding; taken out.
        max_source: longest source that the teacher can read, its end symbol counted.
    """
    began = time.monotonic()
    never = set(forbidden)
    targets: List[List[int]] = [[] for _ in sources]
    outcomes = [Outcome.TRANSLATED] * len(sources)
    todo: List[int] = []
    for index, source in enumerate(sources):
        if not source:
            outcomes[index] = Outcome.EMPTY_SOURCE
        elif len(source) + 1 > max_source:
            outcomes[index] = Outcome.SOURCE_TOO_LONG
        else:
            todo.append(index)
    lengths = [len(sources[index]) + 1 for index in todo]
    for batch in batches_by_length(lengths, max_tokens, max_sentences):
        indices = [todo[position] for position in batch]
        for index, target in zip(indices, engine.translate([sources[i] for i in indices])):
            targets[index] = [token for token in target if token not in never]
            if not targets[index]:
                outcomes[index] = Outcome.EMPTY_OUTPUT
        if progress is not None:
            progress.update(len(indices))
    if progress is not None:
        progress.update(len(sources) - len(todo))
    return Chunk(targets, outcomes, time.monotonic() - began)


def _forbidden(teacher: Teacher) -> List[int]:
    dictionary = teacher.target_dictionary
    filler = [
        index
        for index, (symbol, count) in enumerate(zip(dictionary.symbols, dictionary.count))
        if count == 0 and symbol.startswith("madeupword")
    ]
    specials = [dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()]
    return [*specials, *filler]


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
    """Translate the chunks of one shard that are not there yet."""
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
        total = sum(len(store.range_of(index)) for index in chunks)
        done = total - sum(len(store.range_of(index)) for index in todo)
        with tqdm(total=total, initial=done, unit=" lines", desc="distilling", disable=None) as bar:
            for index in todo:
                batch = [sources[number].tolist()[:-1] for number in store.range_of(index)]
                chunk = translate_chunk(
                    batch, engine, _forbidden(teacher), max_source, max_tokens, max_sentences, bar
                )
                store.write(index, chunk)


def _write_targets(
    store: ChunkStore, references: Any, sources: Any, prefix: Path, size: int, eos: int
) -> Dict[str, Any]:
    """Binarise all chunks; returns counts and length ratios."""
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=size)
    outcomes = dict.fromkeys(Outcome, 0)
    to_source, to_reference = LengthRatios(), LengthRatios()
    seconds, number = 0.0, 0
    for chunk in tqdm(store.read_all(), total=len(store), desc="merging", disable=None):
        seconds += chunk.seconds
        for target, outcome in zip(chunk.targets, chunk.outcomes):
            outcomes[outcome] += 1
            if outcome is Outcome.TRANSLATED:
                to_source.add(len(target), len(sources[number]) - 1)
                to_reference.add(len(target), len(references[number]) - 1)
                builder.add_item(torch.tensor([*target, eos], dtype=torch.int32))
            else:
                builder.add_item(references[number])
            number += 1
    builder.finalize(f"{prefix}.idx")
    return {
        "counts": {"sentences": number, **{o.name.lower(): n for o, n in outcomes.items()}},
        "length_ratios": {
            "distilled_to_source": to_source.summary(),
            "distilled_to_reference": to_reference.summary(),
        },
        "seconds": round(seconds, 3),
    }


def merge(job: Distillation, options: Dict[str, Any]) -> Dict[str, Any]:
    """Make the destination from all chunks; it appears whole or not at all.

    Everything but the train targets is copied byte for byte.

    Returns:
        the content of ``distill.json``.

    Raises:
        UserError: when a chunk is missing, damaged or of another distillation.
    """
    store = store_of(job, options)
    if store.missing():
        next(store.read_all())
    pair = databin.find_languages(job.data)
    with folder_lock(job.work, ".lock-merge"):
        source, target = direction_of(load_checkpoint(job.teacher, mmap=True), job.data, pair)
        dictionary = databin.load_dictionary(job.data, target)
        result = job.work / "bin"
        shutil.rmtree(result, ignore_errors=True)
        result.mkdir()
        replaced = databin.prefix_of(job.data, "train", pair, target)
        skipped = {f"{replaced.name}.bin", f"{replaced.name}.idx", "preprocess.log"}
        for path in sorted(job.data.iterdir()):
            if path.is_file() and path.name not in skipped:
                copy_file(path, result / path.name)
        outcome = _write_targets(
            store,
            databin.load_split(replaced),
            databin.load_split(databin.prefix_of(job.data, "train", pair, source)),
            result / replaced.name,
            len(dictionary),
            dictionary.eos(),
        )
        record = {
            "format": 1,
            "teacher": {"path": str(job.teacher), "sha256": options["teacher_sha256"]},
            "data": str(job.data),
            "direction": Languages(source, target)._asdict(),
            "options": options,
            "versions": installed_versions("ctranslate2"),
            **outcome,
        }
        write_json(result / SIDE_CAR, record)
        if job.destination.is_dir():
            job.destination.rmdir()
        result.rename(job.destination)
        shutil.rmtree(job.work)
    return record
