"""What is compared: systems and the conditions they share."""

from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional


@dataclass(frozen=True)
class SystemSpec:
    """One row of the table.

    Attributes:
        name: what the row is called.
        path: checkpoint of fairseq (``checkpoint_best.pt``); with ``paths``, the first of them.
        options: decoding options by their names in fairseq or this plugin (``beam``,
            ``iter_decode_max_iter``, ``decode_strategy``, ...).
        reranker: checkpoint of an autoregressive model that chooses among the candidates.
        paths: checkpoints of several seeds of one training.
        engine: ``fairseq`` (also for this plugin's models) or ``ctranslate2``.
        compute_type: precision of ctranslate2, such as ``int8`` or ``float32`` (the default).
        training: ``updates``, ``seconds`` and ``stages`` of the training, where the checkpoint does
            not say or does not tell all (a teacher's time, say).
    """

    name: str
    path: str
    options: Dict[str, Any] = field(default_factory=dict)
    reranker: Optional[str] = None
    paths: List[str] = field(default_factory=list)
    engine: str = "fairseq"
    compute_type: Optional[str] = None
    training: Dict[str, float] = field(default_factory=dict)

    @property
    def checkpoints(self) -> List[str]:
        """One for each seed."""
        return self.paths or [self.path]

    def seed(self, number: int) -> "SystemSpec":
        """The row with only its checkpoint ``number``, from 0."""
        return replace(self, path=self.checkpoints[number], paths=[])


@dataclass(frozen=True)
class ComparisonSpec:
    """A whole comparison.

    Attributes:
        data: data-bin that all systems share.
        systems: the rows.
        split: which part of the data.
        references, sources: raw text, one sentence a line; default: the ``SPLIT.raw.LANG`` that
            ``prepare`` leaves beside the data. Sources are read for COMET only.
        tokenised_references: for tokenised BLEU; default: ``SPLIT.tok.LANG`` beside the data, or
            else the references cut by sacremoses.
        batch_size: sentences per batch when quality and throughput are measured.
        batch_sizes: several, for throughput; the table shows ``batch_size`` if it is among them,
            else the largest.
        latency_sentences: sentences timed one by one, spread evenly over the sources' lengths.
        throughput_sentences: sentences of a run that measures throughput, spread likewise; 0: all.
        repeats: how often throughput is measured; the median is reported.
        threads: threads of torch and ctranslate2; 0: as many as torch takes by itself.
        device: ``cpu`` or ``cuda``.
        baseline: name of the row that the others are tested against.
        bootstrap_samples: resamples of that test.
        oracle_length: also decode this plugin's models at the references' lengths.
        memory: also measure peak memory, each row in a process of its own.
        comet: COMET model, by name or as a path to its checkpoint.
        length_buckets: groups by source length, with about as many sentences each.
    """

    data: str
    systems: List[SystemSpec]
    split: str = "test"
    references: Optional[str] = None
    sources: Optional[str] = None
    tokenised_references: Optional[str] = None
    batch_size: int = 32
    batch_sizes: List[int] = field(default_factory=list)
    latency_sentences: int = 100
    throughput_sentences: int = 0
    repeats: int = 1
    threads: int = 1
    device: str = "cpu"
    baseline: Optional[str] = None
    bootstrap_samples: int = 1000
    oracle_length: bool = False
    memory: bool = False
    comet: Optional[str] = None
    length_buckets: int = 4

    @property
    def throughput_sizes(self) -> List[int]:
        """Batch sizes that are timed."""
        return self.batch_sizes or [self.batch_size]

    @property
    def shown_size(self) -> int:
        """The batch size whose throughput is the row's ``sentences_per_second``."""
        sizes = self.throughput_sizes
        return self.batch_size if self.batch_size in sizes else max(sizes)
