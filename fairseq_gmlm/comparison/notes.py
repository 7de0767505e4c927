"""The small print of a table: conditions, signatures, and what a reader should know."""

from typing import List

from fairseq_gmlm.comparison.row import Row


def _unlike(rows: List[Row], key: str) -> bool:
    return len({getattr(row, key) for row in rows}) > 1


def conditions(rows: List[Row]) -> str:
    """How the main table was measured."""
    first = rows[0]
    return (
        f"Batches of {first.batch_size}, {first.threads} thread(s). BLEU: {first.signature}. "
        "Passes of an autoregressive model: one a token."
    )


def _quality(rows: List[Row]) -> List[str]:
    first, found = rows[0], []
    if first.sentences is not None:
        found.append(f"{first.sentences} sentences of the split {first.split}.")
    if any(row.seeds > 1 for row in rows):
        found.append(
            "Quality is the mean over a row's checkpoints, ± their standard deviation (of a "
            "sample); times, memory and the bootstrap test are of the first checkpoint."
        )
    if first.chrf_signature:
        found.append(f"chrF: {first.chrf_signature}.")
    if first.tokenised_bleu is not None:
        found.append(
            f"Tokenised BLEU: {first.tokenised_signature}, compounds split at hyphens, references "
            f"tokenised {_by(first.tokenised_by)}; to be compared with nothing that was tokenised "
            "otherwise."
        )
    if first.baseline is not None:
        found.append(
            f"p: paired bootstrap test of BLEU (sacreBLEU) against {first.baseline}; speed-up: its "
            "latency / the row's."
        )
    if first.comet_model is not None:
        found.append(f"COMET: {first.comet_model}.")
    if any(row.oracle_length_bleu is not None for row in rows):
        found.append(
            "BLEU at oracle length: decoded at the references' lengths with one candidate and no "
            "reranker; for models of this plugin."
        )
    return found


def _by(how: str) -> str:
    return f"by {how}" if how == "sacremoses" else how


def _timing(rows: List[Row]) -> List[str]:
    first, found = rows[0], []
    if first.machine:
        found.append(f"Timed on {first.device}: {first.machine}.")
    runs = sorted({run for row in rows for run in row.timing_runs})
    if len(runs) > 1:
        found.append(
            f"Times come from {len(runs)} runs ({'; '.join(runs)}): rows were not all timed beside "
            "each other. --retime measures them together."
        )
    loads = [row.load_average for row in rows if row.load_average is not None]
    if loads and max(loads) > first.threads + 0.5:
        found.append(
            f"The machine's load average was up to {max(loads):.1f} when timing began: other work "
            "was running, and times are longer than on a quiet machine. The systems took turns."
        )
    if _unlike(rows, "machine") or _unlike(rows, "threads"):
        found.append("Rows were timed under different conditions.")
    return found


def _memory(rows: List[Row]) -> List[str]:
    measured = [row for row in rows if row.peak_memory_bytes is not None]
    if not measured:
        return []
    if measured[0].device == "cuda":
        return ["Peak memory: what torch's allocator held on the GPU, loading included."]
    base = max(row.base_memory_bytes or 0 for row in measured) / 1e6
    part = (
        "while it translates"
        if all(row.memory_decoding_only for row in measured)
        else "loading included"
    )
    return [
        "Peak memory: resident set of a process that does nothing else than translate the longest "
        f"sources with the row's system, {part}; Python and libraries are in it, with up to "
        f"{base:.0f} MB before the model is read."
    ]


def _training(rows: List[Row]) -> List[str]:
    if all(row.training_updates is None and row.training_seconds is None for row in rows):
        return []
    return [
        "Updates are those that the checkpoint records; training time is the file's, or else what "
        "fairseq noted in the checkpoint; a stage is one decoder run of an update."
    ]


def notes(rows: List[Row]) -> List[str]:
    """Sentences below the tables, without :func:`conditions`."""
    found = [*_quality(rows), *_timing(rows), *_memory(rows), *_training(rows)]
    return found + [f"{row.name}: {warning}." for row in rows for warning in row.warnings]
