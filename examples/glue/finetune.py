"""Fine-tune a gmlm_lm checkpoint on a task of GLUE with the hyper-parameters released with u-PMLM.

    python examples/glue/finetune.py --task RTE --glue GLUE/RTE --checkpoint checkpoint_best.pt \\
        --dict data-bin/dict.txt --output runs/RTE --arch gmlm_lm_base \\
        --bpe subword_nmt --bpe-codes codes

Reads train.tsv and the development file of the task's folder, encodes them as the checkpoint's text
was encoded, makes fairseq's data-bin and runs fairseq-train; --print shows the command instead.
What follows -- goes to fairseq-train (the model's own options: --positions relative, say).
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT)]

from tasks import BATCH, TASKS, WARMUP_SHARE, Task, metric_options  # noqa: E402

from fairseq_gmlm.data.codec import Codec, add_codec_arguments  # noqa: E402


def parse(argv: List[str]) -> argparse.Namespace:
    """The options; ``rest`` is for fairseq-train."""
    rest: List[str] = []
    if "--" in argv:
        cut = argv.index("--")
        argv, rest = argv[:cut], argv[cut + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--task", choices=sorted(TASKS), required=True, help="of GLUE")
    add("--glue", type=Path, required=True, metavar="DIR", help="the task's folder of .tsv files")
    add("--checkpoint", type=Path, required=True, metavar="FILE", help="of gmlm_lm")
    add("--dict", type=Path, required=True, metavar="FILE", help="dict.txt it was trained with")
    add("--output", type=Path, required=True, metavar="DIR", help="data and checkpoints")
    add("--arch", default="gmlm_lm_base", help="the checkpoint's architecture")
    add("--max-positions", type=int, default=512, metavar="N", help="the checkpoint's")
    add("--seed", type=int, default=1, metavar="N", help="of the head and the order of examples")
    add("--print", action="store_true", help="show the command of fairseq-train, do not run it")
    add_codec_arguments(parser)
    args = parser.parse_args(argv)
    args.rest = rest
    return args


def read(path: Path, task: Task) -> Iterator[Tuple[List[str], str]]:
    """Texts and label of each line; lines whose label is ``-`` have none and are left out."""
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            if number == 0 and task.header:
                continue
            fields = line.rstrip("\n").split("\t")
            try:
                texts, label = [fields[i] for i in task.texts], fields[task.label]
            except IndexError:
                sys.exit(f"{path}, line {number + 1}: {len(fields)} columns are too few")
            if label != "-":
                yield texts, label


def prepare(args: argparse.Namespace, task: Task, codec: Any) -> Tuple[Path, int]:
    """Make the data-bin; returns it and the number of training examples."""
    data, folder = args.output / "bin", args.output / "text"
    folder.mkdir(parents=True, exist_ok=True)
    sides, count = [f"input{i}" for i in range(len(task.texts))], 0
    for split, name in (("train", "train"), ("valid", task.valid)):
        rows = list(read(args.glue / f"{name}.tsv", task))
        count = len(rows) if split == "train" else count
        for i, side in enumerate(sides):
            lines = [" ".join(codec.encode(texts[i])) for texts, _ in rows]
            (folder / f"{side}.{split}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
        # Numbers, so that fairseq's criterion can compute MCC and F1 from them.
        labels = [x if task.labels is None else str(task.labels.index(x)) for _, x in rows]
        (folder / f"label.{split}").write_text("".join(f"{x}\n" for x in labels), "utf-8")
    for side in sides:
        preprocess(folder / side, data / side, ["--srcdict", str(args.dict)])
    if task.labels is None:
        (data / "label").mkdir(parents=True, exist_ok=True)
        for split in ("train", "valid"):
            # STS-B goes from 0 to 5; RoBERTa's recipe divides by 5.
            values = (folder / f"label.{split}").read_text().split()
            scaled = "".join(f"{float(x) / 5}\n" for x in values)
            (data / "label" / f"{split}.label").write_text(scaled)
    else:
        names = args.output / "labels.txt"
        names.write_text("".join(f"{i} 1\n" for i in range(len(task.labels))))
        preprocess(folder / "label", data / "label", ["--srcdict", str(names)])
    return data, count


def preprocess(prefix: Path, destination: Path, extra: List[str]) -> None:
    """``fairseq-preprocess --only-source`` on train and valid."""
    subprocess.run(
        [
            sys.executable, "-m", "fairseq_cli.preprocess", "--only-source", "--trainpref",
            f"{prefix}.train", "--validpref", f"{prefix}.valid", "--destdir", str(destination),
            *extra,
        ],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def command(args: argparse.Namespace, task: Task, data: Path, examples: int) -> List[str]:
    """``fairseq-train`` with the released learning rate, epochs and batch."""
    updates = max(1, -(-examples // BATCH)) * task.epochs
    classes = 1 if task.labels is None else len(task.labels)
    return [
        sys.executable, "-m", "fairseq_cli.train", str(data), "--user-dir",
        str(ROOT / "fairseq_gmlm"), "--task", "sentence_prediction", "--criterion",
        "sentence_prediction", "--arch", args.arch, "--restore-file", str(args.checkpoint),
        "--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler",
        "--classification-head-name", "sentence_classification_head", "--num-classes",
        str(classes), *(["--regression-target"] if task.labels is None else []),
        "--init-token", "0", "--separator-token", "2", "--max-positions", str(args.max_positions),
        "--shorten-method", "truncate", "--batch-size", str(BATCH),
        "--required-batch-size-multiple", "1", "--optimizer", "adam", "--adam-betas",
        "(0.9, 0.999)", "--adam-eps", "1e-6", "--weight-decay", "0.01", "--lr",
        str(task.learning_rate), "--lr-scheduler", "polynomial_decay", "--total-num-update",
        str(updates), "--warmup-updates", str(int(WARMUP_SHARE * updates)), "--max-epoch",
        str(task.epochs), "--seed", str(args.seed), "--save-dir",
        str(args.output / f"seed{args.seed}"), "--no-epoch-checkpoints", *metric_options(task),
        "--find-unused-parameters", *args.rest,
    ]  # fmt: skip


def main(argv: List[str]) -> int:
    """Prepare, then train."""
    args = parse(argv)
    task = TASKS[args.task]
    data, examples = prepare(args, task, Codec.of(args))
    line = command(args, task, data, examples)
    if args.print:
        print(shlex.join(line))
        return 0
    return subprocess.run(line).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
