"""Training speed side by side: this plugin, fairseq's CMLM, and its autoregressive transformer.

    python benchmarks/train.py --quick --json outputs/train.json
    python benchmarks/train.py --threads 1 2 --ffn 512 1024 --vocabulary 8000 32000

Every system takes the same batches through fairseq's own trainer, update by update in turn, after a
warm-up. Weights and sentences are random. A row's ``tokens_per_second`` counts words and EOS of the
targets; ``against_cmlm`` is the median of the paired ratios to fairseq's CMLM in float32.
"""

import argparse
import itertools
import logging
import statistics
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reporting import Bar, Row, finish
from timing import Ratio, Times, alternate, paired_ratio
from training import Pairs, Size, Updates, random_pairs
from training_memory import peak_of

logger = logging.getLogger("train")
SHOWN = ("system", "dtype", "ffn", "vocabulary", "threads", "tokens_per_second", "against_cmlm",
         "median_ms", "p95_ms", "spread_ms", "optimizer_share", "peak_mb", "libraries_mb")  # fmt: skip


class System(NamedTuple):
    """What is trained, and ``--train-dtype``."""

    name: str
    dtype: str = "float32"


CMLM = System("cmlm_transformer")
GOALS = {System("gmlm_transformer"): 1.3, System("gmlm_transformer", "bfloat16"): 2.0}
ALL = [*GOALS, CMLM, System("transformer")]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add, size = made.add_argument, Size()
    add("--quick", action="store_true", help="what the goals name, and whether they are met")
    add("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    add("--ffn", type=int, nargs="+", default=[size.ffn], metavar="N", help="inner width")
    add("--vocabulary", type=int, nargs="+", default=[size.vocabulary], metavar="N")
    add("--max-tokens", type=int, default=size.max_tokens, metavar="N", help="of a batch")
    add("--rounds", type=int, default=12, metavar="N", help="timed updates of each system")
    add("--no-memory", action="store_true", help="do not measure peak memory")
    add("--json", type=Path, metavar="FILE", help="rows; .csv, .md and .png beside it")
    return made


def measure(
    systems: Sequence[System], size: Size, threads: int, rounds: int, memory: bool
) -> Tuple[List[Row], Dict[System, Ratio]]:
    """Train the systems in turn; a row for each, and the ratio of fairseq's CMLM's time to its."""
    logger.info(f"{threads} thread(s), FFN {size.ffn}, vocabulary {size.vocabulary}")
    torch.set_num_threads(threads)
    pairs = random_pairs(size, rounds)
    with tempfile.TemporaryDirectory() as folder:
        runs = {system: Updates(*system, size, pairs, Path(folder)) for system in systems}
        # A warm-up of all batches but the last: some kernels are prepared once for every shape.
        times = alternate(runs, rounds, warm_up=min(rounds, 3))
        ratios = {system: paired_ratio(times[CMLM], times[system]) for system in systems}
        rows = []
        for system in systems:
            row = row_of(system, size, threads, pairs, times[system], runs[system])
            row["against_cmlm"] = ratios[system].median
            row["libraries_mb"], row["peak_mb"] = (
                peak_of(*system, size, threads) if memory else (None, None)
            )
            rows.append(row)
    return rows, ratios


def row_of(
    system: System, size: Size, threads: int, pairs: Pairs, times: Times, updates: Updates
) -> Row:
    """Everything about one system but what it is compared with."""
    count = len(times.values)
    tokens, steps = updates.tokens[-count:], updates.optimizer_ms[-count:]
    return {
        "system": system.name,
        "engine": "fairseq_gmlm" if system.name.startswith("gmlm") else "fairseq",
        "dtype": system.dtype,
        "batch": statistics.median(len(batch) for batch in pairs.batches),
        "length": size.mean_length,
        "vocabulary": size.vocabulary,
        "threads": threads,
        "passes": None,
        "median_ms": times.median,
        "p95_ms": times.p95,
        "spread_ms": times.spread,
        "tokens_per_second": statistics.median(1e3 * n / ms for n, ms in zip(tokens, times.values)),
        "optimizer_share": statistics.median(a / b for a, b in zip(steps, times.values)),
        "target_fill": updates.target_fill,
        "layers": f"{size.layers}+{size.layers}",
        "width": size.width,
        "ffn": size.ffn,
        "max_tokens": size.max_tokens,
        "device": updates.device,
    }


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measure and report."""
    args = parser().parse_args(arguments)
    warnings.simplefilter("ignore")  # fairseq and hydra have many
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    for name in ("fairseq", "fairseq.trainer", "fairseq.tasks.translation", "hydra"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logger.setLevel(logging.INFO)
    systems = [*GOALS, CMLM] if args.quick else ALL
    rows: List[Row] = []
    bars: List[Bar] = []
    for vocabulary, ffn, threads in itertools.product(args.vocabulary, args.ffn, args.threads):
        size = Size(ffn=ffn, vocabulary=vocabulary, max_tokens=args.max_tokens)
        found, ratios = measure(systems, size, threads, args.rounds, not args.no_memory)
        rows += found
        if args.quick:
            bars += [
                Bar(
                    f"training in {system.dtype}, {threads} thread(s), FFN {ffn}, "
                    f"vocabulary {vocabulary}",
                    goal,
                    ratios[system].median,
                    ratios[system].low,
                    ratios[system].high,
                )
                for system, goal in GOALS.items()
            ]
    finish(rows, SHOWN, bars, args.json)


if __name__ == "__main__":
    main()
