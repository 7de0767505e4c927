"""The whole comparison: load, translate, score, time."""

import logging
import re
import statistics
from pathlib import Path
from typing import List, Optional

import torch
from tqdm import tqdm

from fairseq_gmlm.comparison import quality
from fairseq_gmlm.comparison.measuring import measure_latency, measure_throughput, percentile
from fairseq_gmlm.comparison.report import Row
from fairseq_gmlm.comparison.spec import ComparisonSpec
from fairseq_gmlm.comparison.system import System
from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)


def _write_lines(folder: Path, name: str, lines: List[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.-]+", "_", name).strip("_")
    with atomic_write(folder / f"{safe}.txt") as stream:
        stream.writelines(line + "\n" for line in lines)


def compare(spec: ComparisonSpec, data: str, outputs: Optional[Path] = None) -> List[Row]:
    """Run a comparison.

    Args:
        spec: systems and conditions.
        data: data-bin.
        outputs: folder for the translations.

    Returns:
        a row for each system, in the order of the file.

    Raises:
        UserError: a missing file, an unreadable checkpoint, options that nobody reads.
    """
    if not Path(data).is_dir():
        raise UserError(f"no data-bin at {data}")
    if spec.threads > 0:
        torch.set_num_threads(spec.threads)
    systems = [System(row, data, spec.split) for row in spec.systems]
    language = systems[0].task.cfg.target_lang
    total = len(systems[0].dataset)
    path = quality.reference_path(data, spec.split, language, spec.references)
    references = quality.read_references(path, total)
    detokenize = quality.Detokenizer(language)
    steps = sum(spec.repeats * -(-total // spec.batch_size) for _ in systems)
    steps += min(spec.latency_sentences, total)
    found = []
    with tqdm(total=steps, desc="compare", unit="batch") as bar:

        def progress(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update()

        for system in systems:
            found.append(measure_throughput(system, spec.batch_size, spec.repeats, progress))
        latencies = measure_latency(systems, spec.latency_sentences, progress)
    rows = []
    for system, (sentences, rate) in zip(systems, found):
        lines = [detokenize(sentence.tokens) for sentence in sentences]
        if outputs is not None:
            _write_lines(outputs, system.spec.name, lines)
        scores = quality.score(lines, references)
        times = [1000 * seconds for seconds in latencies[system.spec.name]]
        rows.append(
            Row(
                name=system.spec.name,
                system=system.kind,
                bleu=scores.bleu,
                chrf=scores.chrf,
                passes=statistics.fmean(sentence.passes for sentence in sentences),
                latency_ms=statistics.median(times),
                latency_p95_ms=percentile(times, 0.95),
                sentences_per_second=rate,
                length_ratio=scores.length_ratio,
                brevity_penalty=scores.brevity_penalty,
                stutter=quality.stutter_rate([sentence.tokens for sentence in sentences]),
                parameters=system.parameters,
                batch_size=spec.batch_size,
                threads=torch.get_num_threads(),
                seeds=1,
                signature=scores.signature,
            )
        )
    return rows
