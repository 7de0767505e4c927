"""The main job, end to end: raw text to a table of GMLM beside its teacher, CMLM and NAT.

    python examples/quickstart/run.py [--output DIR] [--size full|smoke]

Every step is a command that a user could type; it is printed before it runs, its output goes to
DIR/logs, and a step whose result is there is not run again.
"""

import argparse
import gzip
import importlib.util
import os
import re
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes"))

from commands import ROOT, Runner, Step, fairseq, ours  # noqa: E402

DATA = HERE / "data"
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class Size:
    """How much work.

    Attributes:
        pairs: training pairs, 0 for all.
        merges: BPE merges.
        teacher, student: updates of the teacher and of each student.
        max_tokens: target tokens in an update.
        latency: sentences timed one by one.
    """

    pairs: int
    merges: int
    teacher: int
    student: int
    max_tokens: int
    latency: int


SIZES = {
    "full": Size(0, 4000, 1300, 1100, 2048, 60),
    "smoke": Size(600, 300, 30, 20, 1024, 5),
}

# The same body for all models: fairseq's names for width, layers, heads.
BODY = (
    "--share-all-embeddings --encoder-embed-dim 128 --decoder-embed-dim 128 "
    "--encoder-ffn-embed-dim 256 --decoder-ffn-embed-dim 256 --encoder-layers 2 "
    "--decoder-layers 2 --encoder-attention-heads 4 --decoder-attention-heads 4 "
)
# One worker-free loader with a full read-ahead buffer ends badly at --max-update; see docs.
TRAIN = (
    # Also for fairseq's own models: the plugin makes their checkpoints readable on torch >= 2.6.
    "--user-dir fairseq_gmlm --optimizer adam --adam-betas (0.9,0.98) --clip-norm 1.0 --lr-scheduler inverse_sqrt "
    "--no-epoch-checkpoints --no-last-checkpoints --no-save-optimizer-state --num-workers 0 "
    "--data-buffer-size 0 --required-batch-size-multiple 1 --log-format simple --log-interval 10 "
    "--seed 1 --cpu "
)


def shortened(output: Path, pairs: int) -> Path:
    """The data's folder; for a part of the pairs a copy with that many lines in train."""
    if not pairs:
        return DATA
    folder = output / "text"
    folder.mkdir(parents=True, exist_ok=True)
    for split, most in (("train", pairs), ("valid", 50), ("test", 40)):
        for language in LANGUAGES:
            name = f"{split}.{language}.gz"
            with gzip.open(DATA / name, "rt", encoding="utf-8", newline="\n") as lines:
                kept = [line for _, line in zip(range(most), lines)]
            with gzip.open(folder / name, "wt", encoding="utf-8", newline="\n") as stream:
                stream.writelines(kept)
    return folder


def training(kind: str, folder: Path, size: Size, teacher: Path, start: Path) -> List[str]:
    """The options that tell one training from another."""
    if kind == "teacher":
        own = (
            "--task translation --arch transformer --criterion label_smoothed_cross_entropy "
            f"--label-smoothing 0.1 --dropout 0.1 --lr 3e-3 --warmup-updates {size.teacher // 4} "
            f"--max-update {size.teacher}"
        )
    else:
        own = (
            f"--label-smoothing 0.1 --dropout 0.1 --lr 2.5e-3 --warmup-updates {size.student // 8} "
            f"--max-update {size.student} "
        )
    if kind == "gmlm":
        own += (
            "--task translation_gmlm --arch gmlm_transformer "
            f"--criterion gmlm_loss --init-from {shlex.quote(str(teacher))}"
        )
    elif kind in ("cmlm", "nat"):
        arch, noise = {
            "cmlm": ("cmlm_transformer", "random_mask"),
            "nat": ("nonautoregressive_transformer", "full_mask"),
        }[kind]
        own += (
            f"--task translation_lev --arch {arch} --noise {noise} --criterion nat_loss "
            f"--finetune-from-model {shlex.quote(str(start))}"
        )
    words = shlex.split(f"{BODY} {TRAIN} --max-tokens {size.max_tokens} {own}")
    return [*words, "--save-dir", str(folder)]


def systems(paths: Dict[str, Path], data: Path, latency: int) -> Dict:
    """The comparison of the last step."""
    rows = [
        {"name": f"teacher, beam {beam}", "path": paths["teacher"], "options": {"beam": beam}}
        for beam in (1, 5)
    ]
    nat = {"iter_decode_max_iter": 0, "iter_decode_with_beam": 3}
    rows.append({"name": "NAT, 1 pass", "path": paths["nat"], "options": nat})
    for passes in (4, 10):
        options = {"iter_decode_max_iter": passes - 1, "iter_decode_with_beam": 3}
        stock = {**options, "iter_decode_force_max_iter": True}
        rows.append({"name": f"CMLM, {passes} passes", "path": paths["cmlm"], "options": stock})
        name = f"GMLM, at most {passes} passes"
        distinct = {**options, "forbid_stutter": True}
        rows.append({"name": f"{name}, repeats allowed", "path": paths["gmlm"], "options": options})
        rows.append({"name": name, "path": paths["gmlm"], "options": distinct})
    rows.append(
        {
            "name": "GMLM, at most 10 passes, reranked by the teacher",
            "path": paths["gmlm"],
            "options": distinct,
            "reranker": paths["teacher"],
        }
    )
    for row in rows:
        row["path"] = str(row["path"])
        if "reranker" in row:
            row["reranker"] = str(row["reranker"])
    return {"data": str(data), "latency_sentences": latency, "threads": 1, "systems": rows}


def samples(generated: Path, count: int) -> str:
    """Source, reference and hypothesis of the first sentences of fairseq-generate's output."""
    found: Dict[int, Dict[str, str]] = {}
    for line in generated.read_text("utf-8").split("\n"):
        match = re.match(r"([STD])-(\d+)\t(.*)", line)
        if match:
            text = match.group(3).split("\t")[-1]
            found.setdefault(int(match.group(2)), {})[match.group(1)] = text
    blocks = []
    for number in sorted(found)[:count]:
        item = found[number]
        blocks.append(f"  en  {item['S']}\n  ref {item['T']}\n  out {item['D']}")
    return "\n\n".join(blocks)


def run(output: Path, size: Size) -> None:
    """All steps in order."""
    output.mkdir(parents=True, exist_ok=True)
    job = Runner(output)

    def command(name: str, result: Path, words: List[str], threads: int, bar_at: int = 0) -> None:
        job.run(Step(name, words, result, threads), bar_at)

    cores = os.cpu_count() or 1
    text, raw, distilled = shortened(output, size.pairs), output / "raw", output / "distilled"
    command(
        "prepare",
        raw / "prepare.json",
        ours(
            *("prepare", "--source-lang", "en", "--target-lang", "de"),
            *("--trainpref", str(text / "train"), "--validpref", str(text / "valid")),
            *("--testpref", str(text / "test"), "--bpe-merges", str(size.merges)),
            *("--destdir", str(raw)),
        ),
        cores,
    )
    paths = {
        kind: output / kind / "checkpoint_best.pt" for kind in ("teacher", "gmlm", "cmlm", "nat")
    }
    teacher, start = paths["teacher"], output / "start.pt"

    def train(kind: str, data: Path, threads: int, bar_at: int = 0) -> None:
        options = training(kind, output / kind, size, teacher, start)
        command(kind, paths[kind], fairseq("train", str(data), *options), threads, bar_at)

    train("teacher", raw, cores)
    engine = "ctranslate2" if importlib.util.find_spec("ctranslate2") else "fairseq"
    command(
        "distill",
        distilled / "distill.json",
        ours(
            *("distill", "--path", str(teacher), "--data", str(raw), "--destdir", str(distilled)),
            *("--beam", "5", "--engine", engine),
        ),
        cores,
    )
    command(
        "warm-start", start, ours("warm-start", "--path", str(teacher), "--output", str(start)), 1
    )
    # Small matrices leave a second thread idle; trainings side by side, on one each, do not.
    students = ("gmlm", "cmlm", "nat")
    with ThreadPoolExecutor(len(students) if cores > 1 else 1) as pool:
        jobs = [
            pool.submit(train, kind, distilled, max(1, cores // len(students)), place)
            for place, kind in enumerate(students)
        ]
        for future in jobs:
            future.result()
    generated = output / "generated"
    command(
        "generate",
        generated / "generate-test.txt",
        fairseq(
            *("generate", str(distilled), "--user-dir", "fairseq_gmlm"),
            *("--task", "translation_gmlm", "--path", str(paths["gmlm"]), "--cpu"),
            *("--iter-decode-max-iter", "9", "--iter-decode-with-beam", "3"),
            *("--tokenizer", "moses", "--source-lang", "en", "--target-lang", "de"),
            *("--forbid-stutter", "--post-process", "subword_nmt", "--scoring", "sacrebleu"),
            *("--results-path", str(generated), "--batch-size", "32"),
        ),
        cores,
    )
    config = output / "systems.yaml"
    config.write_text(yaml.safe_dump(systems(paths, distilled, size.latency), sort_keys=False))
    table = output / "comparison.md"
    command(
        "compare",
        table,
        ours(
            *("compare", str(config), "--json", str(output / "comparison.json")),
            *("--csv", str(output / "comparison.csv"), "--markdown", str(table)),
            *("--outputs", str(output / "translations")),
        ),
        1,
    )
    print(f"\n{samples(generated / 'generate-test.txt', 10)}\n\n{table.read_text('utf-8')}")
    print(f"Everything is in {output}; a second run prints this again.")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    size = os.environ.get("QUICKSTART_SIZE", "full")
    parser.add_argument("--size", choices=sorted(SIZES), default=size)
    parser.add_argument("--output", type=Path, help="default: outputs/quickstart[-smoke]")
    args = parser.parse_args()
    if args.size not in SIZES:
        parser.error(f"QUICKSTART_SIZE must be one of {', '.join(sorted(SIZES))}, not {args.size}")
    name = "quickstart" if args.size == "full" else f"quickstart-{args.size}"
    run((args.output or ROOT / "outputs" / name).resolve(), SIZES[args.size])


if __name__ == "__main__":
    main()
