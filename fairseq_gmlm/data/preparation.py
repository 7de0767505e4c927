"""From raw parallel text to a data-bin, in stages that an interrupted run does not repeat."""

import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from fairseq_gmlm.data import databin, subwords
from fairseq_gmlm.data.corpus import Counts, Filter, count_words, segment_split, tokenize_split
from fairseq_gmlm.data.databin import Languages
from fairseq_gmlm.data.files import copy_file, first_difference, folder_lock, read_json, write_json
from fairseq_gmlm.data.lines import resolve
from fairseq_gmlm.data.text import Tokenization
from fairseq_gmlm.data.versions import installed_versions
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)

SIDE_CAR = "prepare.json"
CODES = "bpecodes"
LOCK = ".lock"
# Below this many lines a worker, fairseq's splitting of files costs more than it gains.
LINES_PER_WORKER = 1000


@dataclass(frozen=True)
class Preparation:
    """What to prepare and how.

    Attributes:
        languages: source and target language, the suffixes of the input files.
        prefixes: ``train``, ``valid``, ``test``, ``test1`` ... to the input path without language.
        merges: number of merges to learn; None when ``codes`` are given.
        codes: codes files for source and target, instead of learning them.
        separate: codes and dictionary of each language for itself.
        tokenization: how words are cut.
        keep: which training pairs stay.
        dictionaries: source and target dictionary to use instead of building them.
    """

    languages: Languages
    prefixes: Dict[str, str]
    merges: Optional[int]
    codes: Optional[Tuple[Path, Path]]
    separate: bool
    tokenization: Tokenization
    keep: Filter
    dictionaries: Tuple[Optional[Path], Optional[Path]]

    def inputs(self) -> Dict[str, Tuple[Path, Path]]:
        """Split to its source and target file.

        Raises:
            UserError: for a file that is not there.
        """
        return {
            name: (resolve(prefix, self.languages.source), resolve(prefix, self.languages.target))
            for name, prefix in self.prefixes.items()
        }

    def record(self) -> Dict[str, Any]:
        """The options as JSON."""
        return {
            "source_lang": self.languages.source,
            "target_lang": self.languages.target,
            "prefixes": self.prefixes,
            "bpe_merges": self.merges,
            "bpe_codes": [str(path) for path in self.codes] if self.codes else None,
            "separate_bpe": self.separate,
            **asdict(self.tokenization),
            **asdict(self.keep),
            "srcdict": str(self.dictionaries[0]) if self.dictionaries[0] else None,
            "tgtdict": str(self.dictionaries[1]) if self.dictionaries[1] else None,
        }


def partial_folder(destination: Path) -> Path:
    """Where an unfinished preparation lives, next to its destination."""
    return destination.with_name(destination.name + ".partial")


def _fingerprint(job: Preparation) -> Dict[str, Any]:
    """The options, and size and time of every file that is read: what a resumed run must share."""
    used = [path for files in job.inputs().values() for path in files]
    used += [path for path in (*(job.codes or ()), *job.dictionaries) if path is not None]
    status = {str(path): path.stat() for path in used}
    return {
        **job.record(),
        **{name: [found.st_size, found.st_mtime_ns] for name, found in status.items()},
    }


def _refuse_used(destination: Path) -> None:
    if destination.exists() and not destination.is_dir():
        raise UserError(f"--destdir {destination} is a file: choose a folder")
    if destination.is_dir() and any(destination.iterdir()):
        what = "holds a finished data-bin" if (destination / SIDE_CAR).exists() else "is not empty"
        raise UserError(f"--destdir {destination} {what}: remove it or choose another folder")


def _tidied(job: Preparation, destination: Path, work: Path) -> Optional[Dict[str, Any]]:
    """The record of a run that was killed when only ``work`` had still to go, which then goes."""
    record, finished = work / "options.json", destination / SIDE_CAR
    if not (record.is_file() and finished.is_file()) or (work / "bin").exists():
        return None
    if first_difference(read_json(record), _fingerprint(job)) is not None:
        return None
    shutil.rmtree(work)
    return read_json(finished)


def _claim(job: Preparation, work: Path) -> None:
    """Note in ``work`` what is prepared there, or find that an interrupted run noted the same."""
    record = work / "options.json"
    options = _fingerprint(job)
    if record.exists():
        difference = first_difference(read_json(record), options)
        if difference is not None:
            raise UserError(
                f"{work} holds an interrupted prepare of something else ({difference}): "
                "remove it to start anew"
            )
        logger.info("going on with the interrupted prepare in %s", work)
        return
    ours = (LOCK, "options.json.*.tmp")  # the second one of a run that was killed at once
    if not all(any(path.match(name) for name in ours) for path in work.iterdir()):
        raise UserError(f"{work} is in the way and not from an interrupted prepare: remove it")
    write_json(record, options)


def _codes(job: Preparation, work: Path) -> Tuple[Path, Path]:
    """Source and target codes in ``work``, learned or copied; one file when BPE is joint."""
    languages = job.languages
    names = [f"{CODES}.{language}" for language in languages] if job.separate else [CODES, CODES]
    paths = work / names[0], work / names[1]
    for side in (0, 1) if job.separate else (0,):
        if paths[side].exists():
            continue
        if job.codes is not None:
            copy_file(job.codes[side], paths[side])
            continue
        sides = [languages[side]] if job.separate else list(dict.fromkeys(languages))
        words = count_words([work / f"train.tok.{language}" for language in sides])
        logger.info("learning %s merges from %s distinct words", job.merges, len(words))
        subwords.learn_codes(words, job.merges or 0, paths[side])
    return paths


def prepare(job: Preparation, destination: Path, workers: int = 1) -> Dict[str, Any]:
    """Make the data-bin ``destination``; it appears whole or not at all.

    Beside fairseq's files it holds ``bpecodes``, of valid and test the cleaned text
    (``test.raw.en``) and the tokenised text (``test.tok.en``), and ``prepare.json``.

    Returns:
        the content of ``prepare.json``.

    Raises:
        UserError: for a destination in use, and for faults of the input files.
    """
    job.inputs()
    work = partial_folder(destination)
    finished = _tidied(job, destination, work)
    if finished is not None:
        return finished
    _refuse_used(destination)
    work.mkdir(parents=True, exist_ok=True)
    with folder_lock(work, LOCK):
        _claim(job, work)
        return _run(job, destination, work, workers)


def _run(job: Preparation, destination: Path, work: Path, workers: int) -> Dict[str, Any]:
    languages = job.languages
    counts: Dict[str, Counts] = {}
    for name, files in job.inputs().items():
        keep = job.keep if name == "train" else None
        counts[name] = tokenize_split(files, work, name, languages, job.tokenization, keep, workers)
        if counts[name].kept == 0:
            raise UserError(
                f"{files[0]}: no pair is left of {counts[name].read} "
                f"(dropped: {counts[name].dropped or 'none'})"
            )
    codes = _codes(job, work)
    prefixes: Dict[str, Path] = {}
    for name in counts:
        prefixes[name] = work / f"{name}.bpe"
        tokenised = tuple(work / f"{name}.tok.{language}" for language in languages)
        outputs = tuple(work / f"{name}.bpe.{language}" for language in languages)
        segment_split(tokenised, outputs, codes, f"segmenting {name}", workers)
    result = work / "bin"
    # fairseq's preprocess cannot go on where it was, and refuses what it left behind.
    shutil.rmtree(result, ignore_errors=True)
    smallest = min(count.kept for count in counts.values())
    databin.binarise(
        prefixes,
        result,
        languages,
        joined=not job.separate,
        dictionaries=job.dictionaries,
        workers=max(1, min(workers, smallest // LINES_PER_WORKER)),
    )
    record = _describe(job, counts, result)
    for path in _companions(work, counts, codes, languages):
        copy_file(path, result / path.name)
    if job.separate:
        # fairseq's hub interface looks for this name, and encodes source text only.
        copy_file(codes[0], result / CODES)
    write_json(result / SIDE_CAR, record)
    if destination.is_dir():
        destination.rmdir()
    result.rename(destination)
    shutil.rmtree(work)
    return record


def _companions(
    work: Path, counts: Dict[str, Counts], codes: Tuple[Path, Path], languages: Languages
) -> List[Path]:
    held_out = [name for name in counts if name != "train"]
    texts = [
        work / f"{name}.{kind}.{language}"
        for name in held_out
        for kind in ("raw", "tok")
        for language in languages
    ]
    return [*dict.fromkeys(codes), *texts]


def _describe(job: Preparation, counts: Dict[str, Counts], result: Path) -> Dict[str, Any]:
    """The side-car's content, after checking that no line was lost on the way."""
    for name, count in counts.items():
        for language in job.languages:
            prefix = databin.prefix_of(result, name, job.languages, language)
            binarised = databin.count_sentences(prefix)
            if binarised != count.kept:
                raise RuntimeError(
                    f"{prefix} has {binarised} sentences where {count.kept} lines went in"
                )
    return {
        "format": 1,
        "options": job.record(),
        "versions": installed_versions("sacremoses", "subword-nmt"),
        "counts": {name: count.__dict__ for name, count in counts.items()},
        "dictionaries": {
            language: len(databin.load_dictionary(result, language)) for language in job.languages
        },
    }
