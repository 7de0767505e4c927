"""Distillation with CTranslate2 against fairseq's own search, on the same sentences.

    python benchmarks/distill.py --path teacher.pt --data data-bin --json outputs/distill.json
    python benchmarks/distill.py --json outputs/distill.json

Both engines translate a chunk of train sources as ``fairseq-gmlm distill`` does, in turn. Without
``--path`` the teacher has random weights, and outputs are held to the length of the source and 5.
``equal`` is the share of translations that are those of fairseq.
"""

import argparse
import logging
import statistics
import sys
import warnings
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask

sys.path.insert(0, str(Path(__file__).resolve().parent))

import random_models
from reporting import Bar, Row, finish
from timing import alternate, paired_ratio
from training import random_lengths

import fairseq_gmlm  # noqa: F401  (registers the plugin)
from fairseq_gmlm.data import databin
from fairseq_gmlm.data.beam_search import Engine, SearchOptions, build_engine
from fairseq_gmlm.data.chunk_translation import forbidden_symbols, translate_chunk
from fairseq_gmlm.data.teacher import Teacher, load_teacher

GOAL = 5.0
SHOWN = ("system", "engine", "dtype", "batch", "length", "threads", "median_ms", "p95_ms",
         "sentences_per_second", "equal")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = made.add_argument
    add("--path", type=Path, metavar="FILE", help="the teacher's checkpoint; goes with --data")
    add("--data", type=Path, metavar="DIR", help="data-bin whose train sources are translated")
    add("--beam", type=int, default=5, metavar="N")
    add("--sentences", type=int, default=400, metavar="N", help="of a chunk")
    add("--rounds", type=int, default=3, metavar="N", help="timed chunks of each engine")
    add("--threads", type=int, nargs="+", default=[1], metavar="N")
    add("--json", type=Path, metavar="FILE", help="rows; .csv, .md and .png beside it")
    return made


def random_teacher(size: random_models.Size) -> Teacher:
    """An untrained transformer with a task that can search with it."""
    model = random_models.transformer(size)
    words = model.decoder.dictionary
    pair = databin.Languages(random_models.SOURCE, random_models.TARGET)
    task = TranslationTask(TranslationConfig(data="."), words, words)
    return Teacher(Path("random"), model, task, pair, words, words)


def random_sources(count: int, words: int, mean: float = 14.0) -> List[List[int]]:
    """Sentences of ordinary words with the lengths of a corpus, without the end symbol."""
    rng = np.random.default_rng(1)
    lengths = random_lengths(count, mean, rng)[:, 0]
    return [(rng.integers(words, size=n) + 4).tolist() for n in lengths]


def given(args: argparse.Namespace) -> Tuple[Teacher, List[List[int]], SearchOptions]:
    """Teacher, sources and search from the options."""
    count = args.sentences * args.rounds
    if args.path is None:
        size = random_models.Size(3, 3, 256, 512, 4, 8000)
        teacher = random_teacher(size)
        sources = random_sources(count, size.vocabulary)
        return teacher, sources, SearchOptions(args.beam, max_len_a=1.0, max_len_b=5)
    pair = databin.find_languages(args.data)
    teacher = load_teacher(args.path, args.data, pair)
    split = databin.load_split(databin.prefix_of(args.data, "train", pair, pair.source))
    # spread over the corpus; its beginning may be of one kind
    places = np.linspace(0, len(split) - 1, min(count, len(split))).astype(int)
    order = np.random.default_rng(1).permutation(places)
    return teacher, [split[int(i)].tolist()[:-1] for i in order], SearchOptions(args.beam)


class Chunks:
    """An engine and its work; each call translates the next chunk.

    Attributes:
        outputs: of the last run over each chunk.
    """

    def __init__(self, engine: Engine, teacher: Teacher, chunks: List[List[List[int]]]) -> None:
        self._engine, self._chunks, self._number = engine, chunks, 0
        self._forbidden = forbidden_symbols(teacher.target_dictionary)
        self._longest = teacher.model.max_positions()[0]
        self.outputs: Dict[int, List[List[int]]] = {}

    def _translate(self, sources: List[List[int]]) -> List[List[int]]:
        budget = self._engine.max_tokens
        return translate_chunk(
            sources, self._engine, self._forbidden, self._longest, budget, None
        ).targets

    def warm_up(self) -> None:
        """A few sentences only: a chunk takes fairseq minutes."""
        self._translate(self._chunks[0][:8])

    def __call__(self) -> None:
        """Translate a chunk, as ``fairseq-gmlm distill`` does."""
        number = self._number % len(self._chunks)
        self._number += 1
        self.outputs[number] = self._translate(self._chunks[number])


def measure(args: argparse.Namespace, threads: int) -> Tuple[List[Row], Bar]:
    """A row for each engine, and the goal."""
    teacher, sources, search = given(args)
    chunks = [sources[i : i + args.sentences] for i in range(0, len(sources), args.sentences)]
    # fairseq's engine changes the model for inference, so that CTranslate2 has to come first.
    runs = {
        name: Chunks(
            build_engine(name, teacher, search, cpu=True, threads=threads), teacher, chunks
        )
        for name in ("ctranslate2", "fairseq")
    }
    for run in runs.values():
        run.warm_up()
    times = alternate(runs, len(chunks), warm_up=0)
    rows = []
    for name, run in runs.items():
        values = times[name].values
        pairs = [
            (a, b)
            for number, output in run.outputs.items()
            for a, b in zip(output, runs["fairseq"].outputs[number])
        ]
        rows.append({
            "system": f"distill, beam {args.beam}", "engine": name,
            "dtype": "int8" if name == "ctranslate2" else "float32", "batch": args.sentences,
            "length": statistics.mean(map(len, sources)),
            "vocabulary": len(teacher.target_dictionary), "threads": threads, "passes": None,
            "median_ms": times[name].median, "p95_ms": times[name].p95, "peak_mb": None,
            "sentences_per_second": statistics.median(
                1e3 * len(chunk) / ms for chunk, ms in zip(chunks, values)
            ),
            "equal": sum(a == b for a, b in pairs) / len(pairs),
            "teacher": "random" if args.path is None else "trained",
        })  # fmt: skip
    ratio = paired_ratio(times["fairseq"], times["ctranslate2"])
    name = f"distill --engine ctranslate2, beam {args.beam}, {threads} thread(s)"
    return rows, Bar(name, GOAL, ratio.median, ratio.low, ratio.high)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measure and report."""
    args = parser().parse_args(arguments)
    if (args.path is None) != (args.data is None):
        raise SystemExit(
            "--path and --data go together: a teacher, and a data-bin of its languages"
        )
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    before = torch.get_num_threads()
    rows: List[Row] = []
    bars: List[Bar] = []
    for threads in args.threads:
        found, bar = measure(args, threads)
        rows += found
        bars.append(bar)
    torch.set_num_threads(before)
    finish(rows, SHOWN, bars, args.json)


if __name__ == "__main__":
    main()
