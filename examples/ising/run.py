"""Rerun the theory's experiments: one CSV and one picture each, in a few minutes.

    python examples/ising/run.py --output outputs/theory

Interrupted, it takes up where it stopped (finished cells lie in OUTPUT/progress until the end).
Seeds are fixed. ``--quick`` is a small version of everything: it shows that it works, and gives
no numbers to quote.
"""

import argparse
import logging
import shutil
import sys
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
    # fairseq opens the root logger wide, and Pillow would log every chunk of every picture.
    logging.getLogger("PIL").setLevel(logging.INFO)
    timing = []
    for experiment in EXPERIMENTS:
        spent = experiment.run(args.output, args.quick)
        figures.draw(experiment.name, args.output)
        timing.append({"experiment": experiment.name, **spent})
    total = {key: sum(row[key] for row in timing) for key in ("seconds", "cpu_seconds")}
    rows = [*timing, {"experiment": "total", **total}]
    threads = torch.get_num_threads()
    write_csv(args.output / "timing.csv", [{**row, "threads": threads} for row in rows])
    shutil.rmtree(args.output / "progress")
    print(
        f"{args.output}: {total['seconds']:.0f} s of computing, {total['cpu_seconds']:.0f} of CPU"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
