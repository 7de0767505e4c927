"""The cells of a grid: one training for each seed, and its decodings. Each is run once."""

import gc
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import torch
from grid import Grid, Training, digest

from fairseq_gmlm.comparison import quality
from fairseq_gmlm.comparison.measuring import measure_throughput
from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.comparison.system import System
from fairseq_gmlm.data.files import write_json
from fairseq_gmlm.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
# No validation: the last checkpoint counts, so that no cell is helped by the choice of another.
ALWAYS = [
    "--user-dir",
    "fairseq_gmlm",
    "--task",
    "translation_gmlm",
    "--criterion",
    "gmlm_loss",
    "--cpu",
    "--no-epoch-checkpoints",
    "--no-save-optimizer-state",
    "--disable-validation",
    "--num-workers",
    "0",
    "--data-buffer-size",
    "0",
    "--log-format",
    "simple",
    "--log-interval",
    "20",
]


def words(options: Dict[str, Any]) -> List[str]:
    """Command-line words: ``{"max-update": 5, "cpu": True}`` -> ``--max-update 5 --cpu``."""
    line: List[str] = []
    for name, value in options.items():
        if value is False or value is None:
            continue
        line += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return line


def folder_of(training: Training, seed: int, output: Path) -> Path:
    """Where a training and its cells are kept."""
    safe = re.sub(r"[^\w.]+", "-", training.name).strip("-")
    return output / f"{safe}-seed{seed}"


def _finished(path: Path, key: str) -> Any:
    """The JSON of a cell that was run before; None if it was not.

    Raises:
        UserError: it was run with other options.
    """
    if not path.is_file():
        return None
    found = json.loads(path.read_text("utf-8"))
    if found["digest"] != key:
        raise UserError(f"{path} was made with other options; remove it, or give another --output")
    return found


def train(grid: Grid, training: Training, seed: int, output: Path) -> Dict[str, Any]:
    """Train one model, unless its result is there.

    Returns:
        ``checkpoint``, ``cpu_seconds`` (user time of the process), ``updates`` and ``options``.

    Raises:
        UserError: fairseq-train failed; its log is named.
    """
    options = grid.train_options(training, seed)
    key = digest([options, training.data])
    folder = folder_of(training, seed, output)
    done = _finished(folder / "training.json", key)
    if done is not None:
        return done
    part = folder / "unfinished"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    line = [sys.executable, "-m", "fairseq_cli.train", grid.data[training.data], *ALWAYS]
    line += [*words(options), "--save-dir", str(part)]
    log = folder / "train.log"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    environment = {**os.environ, "OMP_NUM_THREADS": str(grid.threads)}
    with log.open("wb") as stream:
        code = subprocess.run(
            line, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
        ).returncode
    if code or not (part / "checkpoint_last.pt").is_file():
        tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-8:])
        raise UserError(f"training {folder.name} ended with status {code}; see {log}\n{tail}")
    checkpoint = folder / "checkpoint.pt"
    os.replace(part / "checkpoint_last.pt", checkpoint)
    shutil.rmtree(part)
    found = {
        "digest": key,
        "checkpoint": str(checkpoint),
        "cpu_seconds": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before,
        "updates": options.get("max-update"),
        "options": options,
    }
    write_json(folder / "training.json", found)
    return found


def decode(
    grid: Grid, training: Training, seed: int, name: str, trained: Dict[str, Any], output: Path
) -> Dict[str, Any]:
    """Decode and score one cell, unless its result is there.

    Returns:
        a row: names, seed, scores, passes, stutter and cost.
    """
    options = grid.decode_options(name)
    key = digest([options, trained["digest"], grid.split])
    path = folder_of(training, seed, output) / f"{name}.json"
    done = _finished(path, key)
    if done is not None:
        return done
    torch.set_num_threads(grid.threads)
    reranker = str(options.pop("reranker", "")).replace("{teacher}", grid.teacher) or None
    spec = SystemSpec(f"{training.name}, {name}", trained["checkpoint"], options, reranker)
    data = grid.data[training.data]
    system = System(spec, data, grid.split)
    sentences, rate = measure_throughput(system, grid.batch_size, 1, lambda _: None)
    language = system.task.cfg.target_lang
    detokenize = quality.Detokenizer(language)
    references = quality.read_references(
        quality.reference_path(data, grid.split, language, None), len(sentences)
    )
    lines = [detokenize(sentence.tokens) for sentence in sentences]
    scores = quality.score(lines, references)
    row = {
        "digest": key,
        "training": training.name,
        "decoding": name,
        "seed": seed,
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "length_ratio": scores.length_ratio,
        "signature": scores.signature,
        "passes": statistics.fmean(sentence.passes for sentence in sentences),
        "stutter": quality.stutter_rate([sentence.tokens for sentence in sentences]),
        "sentences_per_second": rate,
        "train_cpu_seconds": trained["cpu_seconds"],
        "updates": trained["updates"],
    }
    write_json(path, row)
    del system
    gc.collect()
    return row
