"""GLUE's tasks: columns of their files, kind of label, and the released hyper-parameters."""

import sys
from typing import Dict, NamedTuple, Optional, Tuple

from fairseq.criterions.sentence_prediction import SentencePredictionConfig


class Task(NamedTuple):
    """One task.

    Attributes:
        texts: columns of the one or two texts in its ``.tsv`` files, from 0.
        label: column of the label.
        header: whether the files begin with a line of names.
        labels: the classes in the order of their numbers; None for regression.
        metric: what the best checkpoint is chosen by.
        learning_rate, epochs: released with u-PMLM-R (spec 7.4).
        valid: name of the development file, without ``.tsv``.
    """

    texts: Tuple[int, ...]
    label: int
    header: bool
    labels: Optional[Tuple[str, ...]]
    metric: str
    learning_rate: float
    epochs: int
    valid: str = "dev"


BATCH = 32
WARMUP_SHARE = 0.06  # of all updates; not among the released values, RoBERTa's

TASKS: Dict[str, Task] = {
    "CoLA": Task((3,), 1, False, ("0", "1"), "mcc", 5e-6, 10),
    "SST-2": Task((0,), 1, True, ("0", "1"), "accuracy", 2e-5, 5),
    "MRPC": Task((3, 4), 0, True, ("0", "1"), "acc_and_f1", 2e-5, 4),
    "STS-B": Task((7, 8), 9, True, None, "pearson_and_spearman", 2e-5, 9),
    "QQP": Task((3, 4), 5, True, ("0", "1"), "acc_and_f1", 2e-5, 10),
    "MNLI-m": Task((8, 9), -1, True, ("contradiction", "neutral", "entailment"), "accuracy", 1e-5,
                   2, "dev_matched"),
    "MNLI-mm": Task((8, 9), -1, True, ("contradiction", "neutral", "entailment"), "accuracy", 2e-5,
                    2, "dev_mismatched"),
    "QNLI": Task((1, 2), 3, True, ("not_entailment", "entailment"), "accuracy", 2e-5, 2),
    "RTE": Task((1, 2), 3, True, ("not_entailment", "entailment"), "accuracy", 1e-5, 4),
}  # fmt: skip

_FLAGS = {
    "mcc": "--report-mcc",
    "acc_and_f1": "--report-acc-and-f1",
    "pearson_and_spearman": "--report-pearson-and-spearman",
}


def metric_options(task: Task) -> Tuple[str, ...]:
    """Options of ``fairseq-train`` that report and follow the task's metric."""
    flag = (_FLAGS[task.metric],) if task.metric in _FLAGS else ()
    best = ("--best-checkpoint-metric", task.metric, "--maximize-best-checkpoint-metric")
    if flag and not hasattr(SentencePredictionConfig, flag[0][2:].replace("-", "_")):
        print(f"this fairseq has no {flag[0]}: the loss picks the best checkpoint", file=sys.stderr)
        return ()
    return (*flag, *best)
