"""Putting the chunks of a distillation together to a data-bin."""

import shutil
from pathlib import Path
from typing import Any, Dict

import torch
from fairseq.data import indexed_dataset
from tqdm import tqdm

from fairseq_gmlm.data import databin
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.data.chunks import ChunkStore, Outcome
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.data.distillation import SIDE_CAR, Distillation, store_of
from fairseq_gmlm.data.files import copy_file, folder_lock, named_when_full, write_json
from fairseq_gmlm.data.length_ratios import LengthRatios
from fairseq_gmlm.data.teacher import direction_of
from fairseq_gmlm.data.versions import installed_versions


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
        with named_when_full(result):
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
