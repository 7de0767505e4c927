"""Rerun the theory's experiments: one CSV and one picture each, in a few minutes.

    python examples/ising/run.py --output outputs/theory

Interrupted, it takes up where it stopped (finished cells lie in OUTPUT/progress until the end).
Seeds are fixed. ``--quick`` is a small version of everything: it shows that it works, and gives
no numbers to quote.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

import learning_experiments
import neural_experiment
import sampling_experiments
import torch
from experiment import write_csv

try:
    import figures
except ImportError as error:
    sys.exit(f"{error}: the pictures need matplotlib, which pip install 'fairseq-gmlm[plot]' adds")

EXPERIMENTS = [
    learning_experiments.PARAMETER_ERROR,
    learning_experiments.JOINT_QUALITY,
    learning_experiments.CONSTANTS,
    sampling_experiments.MIXING,
    sampling_experiments.ESCAPE,
    sampling_experiments.LARGE,
    neural_experiment.NEURAL,
]


def main() -> int:
    """Compute what is not there yet, then write CSVs, pictures and the timing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("outputs/theory"),
        help="folder for CSVs and pictures (default: outputs/theory)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, about half a minute")
    args = parser.parse_args()
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {args.output}: {error.strerror}; give a folder to write to")
    begin = time.perf_counter()
    timing = []
    for experiment in EXPERIMENTS:
        seconds = experiment.run(args.output, args.quick)
        figures.draw(experiment.name, args.output)
        timing.append({"experiment": experiment.name, "seconds": round(seconds, 1)})
    total = round(sum(row["seconds"] for row in timing), 1)
    threads = torch.get_num_threads()
    timing.append({"experiment": "total", "seconds": total})
    write_csv(args.output / "timing.csv", [{**row, "threads": threads} for row in timing])
    shutil.rmtree(args.output / "progress")
    print(f"{args.output}: done in {time.perf_counter() - begin:.0f} s ({total} s of computing)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
