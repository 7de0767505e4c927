"""From cells to rows: scoring, means over seeds, significance."""

import statistics
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from fairseq_gmlm.comparison import quality
from fairseq_gmlm.comparison.fingerprints import machine
from fairseq_gmlm.comparison.length_buckets import buckets, by_source_length
from fairseq_gmlm.comparison.measuring import percentile
from fairseq_gmlm.comparison.remarks import row_warnings
from fairseq_gmlm.comparison.row import Row
from fairseq_gmlm.comparison.significance import p_values
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.comparison.tokenised import tokenised_bleu, tokenised_references
from fairseq_gmlm.comparison.translations import Translations

Lines = List[str]


def mean_and_deviation(values: Sequence[float]) -> Tuple[float, Optional[float]]:
    """Mean, and standard deviation of a sample; None for a single value."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


class Scorer:
    """References of a split, and scores against them.

    Raises:
        UserError: no references, or another number of lines than sentences.
    """

    def __init__(self, spec: ComparisonSpec, data: str, languages: List[str], total: int) -> None:
        self.spec = spec
        target = languages[1]
        path = quality.reference_path(data, spec.split, target, spec.references)
        self.references = quality.read_lines(path, total, "references")
        self.words, self.words_by = tokenised_references(
            spec.tokenised_references, data, spec.split, target, self.references
        )
        self.detokenize = quality.Detokenizer(target)

    def lines(self, made: Translations) -> Lines:
        """Plain text of each sentence."""
        return [self.detokenize(tokens) for tokens in made.tokens]

    def quality(self, made: List[Translations], lines: List[Lines]) -> Dict[str, Any]:
        """Fields of a row that the translations of its checkpoints decide."""
        scores = [quality.score(each, self.references) for each in lines]
        tokenised = [tokenised_bleu(each.tokens, self.words) for each in made]
        bleu, bleu_std = mean_and_deviation([score.bleu for score in scores])
        chrf, chrf_std = mean_and_deviation([score.chrf for score in scores])
        words, words_std = mean_and_deviation([score for score, _ in tokenised])
        masks = None if made[0].family == "autoregressive" else sum(m.leftovers for m in made)
        return {
            "bleu": bleu,
            "bleu_std": bleu_std,
            "chrf": chrf,
            "chrf_std": chrf_std,
            "tokenised_bleu": words,
            "tokenised_bleu_std": words_std,
            "tokenised_signature": tokenised[0][1],
            "tokenised_by": self.words_by,
            "signature": scores[0].signature,
            "chrf_signature": scores[0].chrf_signature,
            "length_ratio": statistics.fmean(score.length_ratio for score in scores),
            "brevity_penalty": statistics.fmean(score.brevity_penalty for score in scores),
            "passes": statistics.fmean(n for each in made for n in each.passes),
            "stutter": statistics.fmean(quality.stutter_rate(each.tokens) for each in made),
            "leftovers": masks,
        }

    def oracle(self, made: List[Translations]) -> Dict[str, Any]:
        """BLEU at the references' lengths."""
        scores = [quality.score(self.lines(each), self.references).bleu for each in made]
        mean, deviation = mean_and_deviation(scores)
        return {"oracle_length_bleu": mean, "oracle_length_bleu_std": deviation}

    def by_length(
        self, made: List[Translations], lines: List[Lines], groups: List[List[int]], cell: Dict
    ) -> List[Dict[str, Any]]:
        """See :func:`by_source_length`."""
        sizes = made[0].source_sizes
        times = [(int(number), seconds) for number, seconds in cell["seconds"]]
        return by_source_length(groups, sizes, lines, self.references, times)

    def groups(self, made: Translations) -> List[List[int]]:
        """Sentences by source length; the same for all rows."""
        return buckets(made.source_sizes, self.spec.length_buckets)


def training_fields(row: SystemSpec, made: List[Translations]) -> Dict[str, Optional[float]]:
    """Updates as the checkpoints have them; seconds and stages as the file says, or as they have."""

    def recorded(name: str) -> Optional[float]:
        values = [each.facts.get(name) for each in made]
        return None if None in values else statistics.fmean(values)

    updates, given = recorded("updates"), row.training
    return {
        "training_updates": given.get("updates") if updates is None else updates,
        "training_seconds": given.get("seconds", recorded("seconds")),
        "training_stages": given.get("stages", recorded("stages")),
    }


def timing_fields(
    spec: ComparisonSpec, latency: Dict[str, Any], throughput: Dict[int, Dict[str, Any]]
) -> Dict[str, Any]:
    """Fields of a row that the clock decides."""
    times = [1000 * seconds for _, seconds in latency["seconds"]]
    rates = {size: statistics.median(cell["rates"]) for size, cell in throughput.items()}
    cells = [latency, *throughput.values()]
    loads = [cell["load_average"] for cell in cells if cell["load_average"] is not None]
    return {
        "latency_ms": statistics.median(times),
        "latency_p95_ms": percentile(times, 0.95),
        "sentences_per_second": rates[spec.shown_size],
        "throughput": {str(size): rate for size, rate in rates.items()},
        "batch_size": spec.shown_size,
        "threads": torch.get_num_threads(),
        "device": spec.device,
        "machine": machine(spec.device),
        "timing_runs": sorted({cell["run"] for cell in cells}),
        "load_average": max(loads, default=None),
    }


def build_row(row: SystemSpec, made: List[Translations], **found: Any) -> Row:
    """The row, from fields found elsewhere and what the translations' cells hold."""
    first = made[0]
    return Row(
        name=row.name,
        system=first.kind,
        family=first.family,
        parameters=first.parameters,
        weight_bytes=first.facts["bytes"],
        seeds=len(made),
        sentences=len(first.tokens),
        warnings=row_warnings(row, first, found["leftovers"]),
        **training_fields(row, made),
        **found,
    )


def against_baseline(
    rows: List[Row], lines: Dict[str, Lines], references: Lines, baseline: str, samples: int
) -> List[Row]:
    """Rows with ``p_value`` and ``speedup``, the baseline's own apart.

    Args:
        lines: translations of each row's first checkpoint.
    """
    others = [(row.name, lines[row.name]) for row in rows if row.name != baseline]
    values = p_values((baseline, lines[baseline]), others, references, samples)
    base = next(row for row in rows if row.name == baseline)
    return [
        replace(
            row,
            baseline=baseline,
            p_value=values.get(row.name),
            speedup=base.latency_ms / row.latency_ms,
        )
        for row in rows
    ]
