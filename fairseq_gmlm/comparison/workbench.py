"""The machine's part of a comparison: what has to be decoded and timed, and what is there."""

import contextlib
import os
import time
from dataclasses import asdict, replace
from typing import Any, Dict, Iterator, List, Tuple

from tqdm import tqdm

from fairseq_gmlm.comparison.cells import Cells
from fairseq_gmlm.comparison.fingerprints import decoding_key, load_average, timing_key
from fairseq_gmlm.comparison.loading import load_system
from fairseq_gmlm.comparison.measuring import latencies, throughputs
from fairseq_gmlm.comparison.memory import measure_memory
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.comparison.system import SplitSystem
from fairseq_gmlm.comparison.translations import Translations, languages_of, translate

Cell = Dict[str, Any]


class Workbench:
    """Computes the cells of a comparison, or finds them.

    Args:
        spec: what is compared.
        data: data-bin.
        cells: store of finished cells.
        retime: measure times anew though they are there.
    """

    def __init__(self, spec: ComparisonSpec, data: str, cells: Cells, retime: bool) -> None:
        self.spec, self.data, self.cells, self.retime = spec, data, cells, retime
        self.run = self._run_name()
        self.keys = {row.name: decoding_key(spec, data, row, 0) for row in spec.systems}
        self.loaded: Dict[str, SplitSystem] = {}
        self.bar = tqdm(disable=True)

    @staticmethod
    def _run_name() -> str:
        """What tells times of this run from those of others."""
        return f"{time.strftime('%Y-%m-%d %H:%M:%S')}, process {os.getpid()}"

    def _progress(self, name: str) -> None:
        self.bar.set_postfix_str(name)
        self.bar.update()

    @contextlib.contextmanager
    def _shown(self, what: str, steps: int) -> Iterator[None]:
        """A bar for so many batches."""
        with tqdm(total=steps, desc=what, unit="batch", disable=not steps) as bar:
            self.bar = bar
            yield

    # -- what is missing -----------------------------------------------------------------------

    def _latency_key(self, row: SystemSpec) -> Cell:
        sentences = self.spec.latency_sentences
        return timing_key(self.keys[row.name], self.spec, spread_over_lengths=sentences)

    def _throughput_key(self, row: SystemSpec, size: int) -> Cell:
        return timing_key(
            self.keys[row.name],
            self.spec,
            batch_size=size,
            repeats=self.spec.repeats,
            sentences=self.spec.throughput_sentences,
        )

    def _timed(self, kind: str, key: Cell) -> bool:
        return not self.retime and self.cells.get(kind, key) is not None

    def _needed(self, row: SystemSpec) -> bool:
        """Does the row's first checkpoint have anything left to do?"""
        done = self.cells.get("translations", self.keys[row.name]) is not None
        done = done and self._timed("latency", self._latency_key(row))
        sizes = self.spec.throughput_sizes
        return not (
            done and all(self._timed("throughput", self._throughput_key(row, n)) for n in sizes)
        )

    def load(self) -> None:
        """Load every first checkpoint with work to do, so that faults show before the work."""
        rows = [row for row in self.spec.systems if self._needed(row)]
        with self._shown("load", len(rows)):
            for row in rows:
                spec = row.seed(0)
                self.loaded[row.name] = load_system(
                    spec, self.data, self.spec.split, self.spec.device
                )
                self._progress(row.name)

    def extent(self) -> Tuple[List[str], int]:
        """Source and target language, and the number of sentences."""
        if not self.loaded:
            made = self.translations(self.spec.systems[0])[0]
            return made.languages, len(made.tokens)
        system = next(iter(self.loaded.values()))
        return languages_of(system), len(system.dataset)

    # -- translations --------------------------------------------------------------------------

    def _translations(self, row: SystemSpec, number: int) -> Translations:
        key = decoding_key(self.spec, self.data, row, number)
        found = self.cells.get("translations", key)
        if found is not None:
            return Translations(**found)
        system = self.loaded.get(row.name) if number == 0 else None
        if system is None or system.spec.options != row.options:
            system = load_system(row.seed(number), self.data, self.spec.split, self.spec.device)
        with self._shown(row.name, -(-len(system.dataset) // self.spec.batch_size)):
            made = translate(system, self.spec.batch_size, self._progress)
        self.cells.put("translations", key, asdict(made))
        return made

    def translations(self, row: SystemSpec) -> List[Translations]:
        """Of each checkpoint of a row."""
        return [self._translations(row, number) for number in range(len(row.checkpoints))]

    def oracle_translations(self, row: SystemSpec) -> List[Translations]:
        """Of each checkpoint, at the lengths of the references and with one candidate.

        One length is enough, since the oracle gives the same to every candidate.
        """
        options = {
            **row.options,
            "oracle_length": True,
            "iter_decode_with_beam": 1,
            "length_offset_beam": 1,
            "nbest": 1,
        }
        for name in ("iter_decode_with_external_reranker", "prune_to", "prune_after"):
            options.pop(name, None)
        return self.translations(replace(row, options=options, reranker=None))

    # -- times ---------------------------------------------------------------------------------

    def _missing(self, kind: str, keys: Dict[str, Cell]) -> List[SplitSystem]:
        return [self.loaded[name] for name, key in keys.items() if not self._timed(kind, key)]

    def _measured(self, kind: str, keys: Dict[str, Cell], measure: Any, steps: int) -> List[Cell]:
        """Cells of all rows, those that are missing measured together."""
        systems = self._missing(kind, keys)
        fresh: Dict[str, Cell] = {}
        if systems:
            began = load_average()
            with self._shown(kind, steps):
                values = measure(systems)
            for system, value in zip(systems, values):
                cell = {**value, "run": self.run, "load_average": began}
                self.cells.put(kind, keys[system.spec.name], cell)
                fresh[system.spec.name] = cell
        return [fresh.get(name) or self.cells.get(kind, key) for name, key in keys.items()]

    def latency_cells(self) -> List[Cell]:
        """``seconds``: pairs of sentence number and time at batch 1, for each row."""
        count = self.spec.latency_sentences

        def measure(systems: List[SplitSystem]) -> List[Cell]:
            chosen, times = latencies(systems, count, self._progress)
            return [{"seconds": [list(pair) for pair in zip(chosen, row)]} for row in times]

        keys = {row.name: self._latency_key(row) for row in self.spec.systems}
        return self._measured("latency", keys, measure, min(count, self._total()))

    def throughput_cells(self, size: int) -> List[Cell]:
        """``rates``: sentences per second of each repeat, for each row."""
        spec = self.spec

        def measure(systems: List[SplitSystem]) -> List[Cell]:
            rates = throughputs(
                systems, size, spec.repeats, spec.throughput_sentences, self._progress
            )
            return [{"rates": row} for row in rates]

        keys = {row.name: self._throughput_key(row, size) for row in spec.systems}
        count = min(spec.throughput_sentences or self._total(), self._total())
        return self._measured("throughput", keys, measure, spec.repeats * -(-count // size))

    def _total(self) -> int:
        return max((len(system.dataset) for system in self.loaded.values()), default=0)

    def memory_cell(self, row: SystemSpec) -> Cell:
        """``base`` and ``peak`` in bytes, see :mod:`memory`."""
        spec = self.spec
        size = spec.shown_size
        key = timing_key(self.keys[row.name], spec, memory_batch_size=size)
        found = self.cells.get("memory", key)
        if found is None:
            found = measure_memory(row, self.data, spec.split, spec.device, spec.threads, size)
            self.cells.put("memory", key, found)
        return found
