"""One row of results; its fields are the keys of the JSON rows."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional


@dataclass(frozen=True)
class Row:
    """One system's results.

    Quality is the mean over the row's checkpoints, ``..._std`` their standard deviation (of a
    sample; None for one checkpoint). Time and memory are the first checkpoint's.

    Attributes:
        name, system: the row's name and the architecture.
        bleu, chrf, signature, length_ratio, brevity_penalty: see :class:`Quality`.
        passes: decoder runs per sentence, mean; for an autoregressive model, one a token.
        latency_ms, latency_p95_ms: at batch 1, median and 95th percentile.
        sentences_per_second: at ``batch_size``; ``throughput``: at each batch size.
        batch_size, threads, device, machine: conditions of the timing.
        stutter: share of subwords that repeat their left neighbour.
        parameters: number of weights, with a reranker's; ``weight_bytes``: of the checkpoint's.
        seeds: number of checkpoints behind the row.
        family: ``autoregressive``, ``nat`` or ``gmlm``.
        tokenised_bleu: on words with compounds split, see :mod:`tokenised`; ``tokenised_by``: how
            the references became words.
        comet: score of ``comet_model``.
        oracle_length_bleu: decoded at the references' lengths.
        p_value: of the paired bootstrap test against ``baseline``, first checkpoints.
        speedup: ``baseline``'s latency / this row's.
        leftovers: masks in the outputs of all checkpoints; None for autoregressive models.
        peak_memory_bytes, base_memory_bytes: see :mod:`memory`; ``memory_decoding_only``: whether
            the peak leaves out loading.
        training_updates, training_seconds, training_stages: of the training, mean over checkpoints.
        buckets: by source length, see :func:`by_source_length`.
        timing_runs: the runs of the command that its times come from.
        load_average: of the machine when the row's timing began, the largest.
        warnings: what a reader should know.
    """

    name: str
    system: str
    bleu: float
    chrf: float
    passes: float
    latency_ms: float
    latency_p95_ms: float
    sentences_per_second: float
    length_ratio: float
    brevity_penalty: float
    stutter: float
    parameters: int
    batch_size: int
    threads: int
    seeds: int
    signature: str
    family: str = ""
    chrf_signature: str = ""
    bleu_std: Optional[float] = None
    chrf_std: Optional[float] = None
    tokenised_bleu: Optional[float] = None
    tokenised_bleu_std: Optional[float] = None
    tokenised_signature: str = ""
    tokenised_by: str = ""
    comet: Optional[float] = None
    comet_std: Optional[float] = None
    comet_model: Optional[str] = None
    oracle_length_bleu: Optional[float] = None
    oracle_length_bleu_std: Optional[float] = None
    baseline: Optional[str] = None
    p_value: Optional[float] = None
    speedup: Optional[float] = None
    leftovers: Optional[int] = None
    throughput: Dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: Optional[int] = None
    base_memory_bytes: Optional[int] = None
    memory_decoding_only: Optional[bool] = None
    weight_bytes: Optional[int] = None
    training_updates: Optional[float] = None
    training_seconds: Optional[float] = None
    training_stages: Optional[float] = None
    buckets: List[Dict[str, Any]] = field(default_factory=list)
    device: str = "cpu"
    machine: str = ""
    timing_runs: List[str] = field(default_factory=list)
    load_average: Optional[float] = None
    split: str = ""
    sentences: Optional[int] = None
    warnings: List[str] = field(default_factory=list)
