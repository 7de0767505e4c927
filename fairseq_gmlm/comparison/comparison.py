"""The whole comparison: load, translate, time, score."""

import re
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

from fairseq_gmlm.comparison import quality
from fairseq_gmlm.comparison.cells import Cells, digest_of
from fairseq_gmlm.comparison.comet import CometScorer
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.comparison.rows import (
    Lines,
    Scorer,
    against_baseline,
    build_row,
    mean_and_deviation,
    timing_fields,
)
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.comparison.system import check_device
from fairseq_gmlm.comparison.translations import Translations
from fairseq_gmlm.comparison.workbench import Workbench
from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.errors import UserError


def _write_lines(folder: Path, name: str, lines: List[Lines]) -> None:
    """``NAME.txt``, and ``NAME.2.txt`` and so on for further seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.-]+", "_", name).strip("_")
    for number, each in enumerate(lines, 1):
        end = "" if number == 1 else f".{number}"
        with atomic_write(folder / f"{safe}{end}.txt") as stream:
            stream.writelines(line + "\n" for line in each)


def _check_files(spec: ComparisonSpec, data: str) -> None:
    """Refuse missing files before anything is loaded."""
    if not Path(data).is_dir():
        raise UserError(f"no data-bin at {data}")
    check_device(spec.device)
    for row in spec.systems:
        for path in [*row.checkpoints, *([row.reranker] if row.reranker else [])]:
            if not Path(path).is_file():
                raise UserError(f"system {row.name!r}: no checkpoint at {path}")


class _Comet:
    """COMET of a comparison, kept in cells."""

    def __init__(self, spec: ComparisonSpec, data: str, cells: Cells) -> None:
        assert spec.comet is not None
        self.spec, self.data, self.cells = spec, data, cells
        self.scorer = CometScorer(spec.comet)  # at once, so that a missing model shows at once

    def __call__(self, lines: List[Lines], references: Lines, language: str) -> Dict[str, Any]:
        path = quality.reference_path(self.data, self.spec.split, language, self.spec.sources)
        sources = quality.read_lines(path, len(references), "sources")
        values = []
        for each in lines:
            texts = digest_of({"texts": [sources, each, references]})
            key = {"model": self.spec.comet, "texts": texts}
            value = self.cells.get("comet", key)
            if value is None:
                value = self.scorer(sources, each, references)
                self.cells.put("comet", key, value)
            values.append(value)
        mean, deviation = mean_and_deviation(values)
        return {"comet": mean, "comet_std": deviation, "comet_model": self.spec.comet}


def _rows(
    spec: ComparisonSpec, bench: Workbench, scorer: Scorer, made: List[List[Translations]],
    comet: Optional[_Comet], outputs: Optional[Path],
) -> List[Row]:  # fmt: skip
    latency = bench.latency_cells()
    throughput = {size: bench.throughput_cells(size) for size in spec.throughput_sizes}
    groups = scorer.groups(made[0][0])
    rows, firsts = [], {}
    for number, (row, each) in enumerate(zip(spec.systems, made)):
        lines = [scorer.lines(one) for one in each]
        firsts[row.name] = lines[0]
        if outputs is not None:
            _write_lines(outputs, row.name, lines)
        found: Dict[str, Any] = {"split": spec.split, **scorer.quality(each, lines)}
        found.update(
            timing_fields(spec, latency[number], {n: c[number] for n, c in throughput.items()})
        )
        found["buckets"] = scorer.by_length(each, lines, groups, latency[number])
        if comet is not None:
            found.update(comet(lines, scorer.references, each[0].languages[0]))
        found.update(_extras(spec, bench, scorer, row, each[0].family))
        rows.append(build_row(row, each, **found))
    if spec.baseline is None:
        return rows
    return against_baseline(rows, firsts, scorer.references, spec.baseline, spec.bootstrap_samples)


def _extras(
    spec: ComparisonSpec, bench: Workbench, scorer: Scorer, row: SystemSpec, family: str
) -> Dict[str, Any]:
    """What the file asks for beside: decoding at oracle lengths, memory."""
    found: Dict[str, Any] = {}
    if spec.oracle_length and family == "gmlm":
        found.update(scorer.oracle(bench.oracle_translations(row)))
    if spec.memory:
        cell = bench.memory_cell(row)
        found.update(
            peak_memory_bytes=cell["peak"],
            base_memory_bytes=cell["base"],
            memory_decoding_only=cell["decoding_only"],
        )
    return found


def compare(
    spec: ComparisonSpec,
    data: str,
    outputs: Optional[Path] = None,
    cache: Optional[Path] = None,
    retime: bool = False,
) -> List[Row]:
    """Run a comparison.

    Args:
        spec: systems and conditions.
        data: data-bin.
        outputs: folder for the translations.
        cache: folder of finished cells, which are not computed again.
        retime: measure all times anew, together, though they are in the cache.

    Returns:
        a row for each system, in the order of the file.

    Raises:
        UserError: a missing file, an unreadable checkpoint, options that nobody reads.
    """
    _check_files(spec, data)
    if spec.threads > 0:
        torch.set_num_threads(spec.threads)
    cells = Cells(cache)
    comet = _Comet(spec, data, cells) if spec.comet else None
    bench = Workbench(spec, data, cells, retime)
    bench.load()
    scorer = Scorer(spec, data, *bench.extent())  # before the work: it may lack references
    made = [bench.translations(row) for row in spec.systems]
    return _rows(spec, bench, scorer, made, comet, outputs)
