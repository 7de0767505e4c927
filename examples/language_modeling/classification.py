"""Telling two parts of the corpus apart: fine-tuning with fairseq's sentence_prediction."""

import random
from pathlib import Path
from typing import Any, Dict, List, Optional

from corpus import Corpus, Splits, preprocess, two_labels, without_names
from systems import PLUGIN, Size, fairseq_train, model_options

HEAD = "sentence_classification_head"


def prepare_labels(
    corpus: Corpus, splits: Splits, cut: Any, folder: Path, dictionary: Path, size: Size
) -> Dict[str, Any]:
    """Write ``input0`` and ``label`` data-bins of balanced classes; returns what they hold.

    Training sentences are among those that the language models were trained on, validation and
    test sentences are not. Sentences with a name in them are left out.

    Raises:
        ValueError: the corpus has no two parts.
    """
    first, second = two_labels(corpus, splits.train)
    wanted = {"train": size.tuned, "valid": size.held_out, "test": size.held_out}
    counts: Dict[str, int] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, indices in zip(splits._fields, splits):
        classes: List[List[int]] = [
            [i for i in indices if corpus.labels[i] == label and without_names(corpus.sentences[i])]
            for label in (first, second)
        ]
        each = min(wanted[name] // 2, *map(len, classes))
        rows = [(i, label) for label, many in enumerate(classes) for i in many[:each]]
        random.Random(1).shuffle(rows)
        counts[name] = len(rows)
        with (
            (folder / f"input0.{name}").open("w", encoding="utf-8") as texts,
            (folder / f"label.{name}").open("w", encoding="utf-8") as labels,
        ):
            for index, label in rows:
                texts.write(" ".join(cut(corpus.sentences[index].split())) + "\n")
                labels.write(f"{label}\n")
    for part, source in (("input0", dictionary), ("label", None)):
        if not (folder / "bin" / part / "test.idx").is_file():
            prefixes = {name: folder / f"{part}.{name}" for name in counts}
            preprocess(prefixes, folder / "bin" / part, source)
    return {"labels": [first, second], "sentences": counts}


def fine_tune(
    data: Path, save: Path, size: Size, seed: int, rate: float, checkpoint: Optional[Path]
) -> Dict[str, float]:
    """Train a classifier, from a language model or from scratch; accuracies in percent."""
    start: List[str] = []
    if checkpoint is not None:
        start = [
            "--restore-file", str(checkpoint), "--reset-optimizer", "--reset-dataloader",
            "--reset-meters", "--reset-lr-scheduler",
        ]  # fmt: skip
    arguments = [
        str(data), "--user-dir", str(PLUGIN), "--task", "sentence_prediction",
        "--criterion", "sentence_prediction", "--classification-head-name", HEAD,
        "--num-classes", "2", "--init-token", "0", "--separator-token", "2",
        *model_options(size), "--shorten-method", "truncate",
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", "1.0",
        "--lr", str(rate), "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", str(size.tuning_updates // 10),
        "--total-num-update", str(size.tuning_updates), "--max-update", str(size.tuning_updates),
        "--batch-size", "32", "--required-batch-size-multiple", "1", "--seed", str(seed),
        "--save-dir", str(save), "--no-epoch-checkpoints", "--best-checkpoint-metric", "accuracy",
        "--maximize-best-checkpoint-metric", "--log-format", "simple", "--num-workers", "0",
        "--data-buffer-size", "0", "--cpu", *start,
    ]  # fmt: skip
    fairseq_train(arguments, save)
    return {"valid": accuracy(data, save, "valid"), "test": accuracy(data, save, "test")}


def accuracy(data: Path, save: Path, split: str) -> float:
    """Percent of a split that the best checkpoint gets right."""
    import torch
    from evaluation import load

    model, task = load(save / "checkpoint_best.pt", data)
    task.load_dataset(split)
    dataset, right = task.dataset(split), 0
    with torch.no_grad():
        for start in range(0, len(dataset), 64):
            rows = range(start, min(start + 64, len(dataset)))
            sample = dataset.collater([dataset[i] for i in rows])
            logits, _ = model(**sample["net_input"], classification_head_name=HEAD)
            right += int((logits.argmax(-1) == sample["target"].view(-1)).sum())
    return 100.0 * right / len(dataset)
