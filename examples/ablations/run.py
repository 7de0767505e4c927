"""Run a grid of trainings and decodings, cell by cell, and write its table and plot.

    python examples/ablations/run.py GRID.yaml --output DIR [--report docs/ablations.md]

A cell whose result is in DIR is not run again, so that the command can be stopped and repeated.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cells
import report
from grid import describe, read_grid
from tqdm import tqdm

import fairseq_gmlm  # noqa: F401  (registers the plugin)
from fairseq_gmlm.data.files import atomic_write, write_json
from fairseq_gmlm.data.pages import write_into
from fairseq_gmlm.errors import UserError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("grid", type=Path, help="YAML file, such as examples/ablations/first.yaml")
    made.add_argument("--output", type=Path, default=Path("outputs/ablations"), help="results")
    made.add_argument(
        "--data", action="append", default=[], metavar="NAME=DATA_BIN",
        help="a data-bin of the grid, in place of the file's",
    )  # fmt: skip
    made.add_argument("--teacher", help="checkpoint that {teacher} stands for in the grid")
    made.add_argument("--report", type=Path, help="Markdown file to write the tables into")
    made.add_argument(
        "--report-only", action="store_true", help="run nothing; report the cells that are there"
    )
    return made


def overrides(data: List[str], teacher: Optional[str]) -> Dict[str, Any]:
    """What the command line sets in the grid.

    Raises:
        UserError: ``--data`` without a name.
    """
    found = {}
    for item in data:
        name, equal, path = item.partition("=")
        if not equal:
            raise UserError(f"--data takes NAME=DATA_BIN, not {item}")
        found[name] = path
    return {"data": found, "teacher": teacher}


def run(args: argparse.Namespace) -> List[Dict[str, Any]]:
    """All cells; returns their rows."""
    grid = read_grid(args.grid, overrides(args.data, args.teacher))
    for name in {training.data for training in grid.trainings}:
        if not args.report_only and not Path(grid.data[name]).is_dir():
            raise UserError(
                f"no data-bin at {grid.data[name]}; run examples/quickstart/run.py first, or give "
                f"--data {name}=DATA_BIN"
            )
    args.output.mkdir(parents=True, exist_ok=True)
    write_json(args.output / "grid.json", describe(grid))
    todo = [(t, seed) for seed in grid.seeds for t in grid.trainings]
    rows: List[Dict[str, Any]] = []
    with tqdm(total=sum(1 + len(t.decodings) for t, _ in todo), unit="cell") as bar:
        for training, seed in todo:
            folder = cells.folder_of(training, seed, args.output)
            if args.report_only and not (folder / "training.json").is_file():
                continue
            bar.set_postfix_str(folder.name)
            trained = cells.train(grid, training, seed, args.output)
            bar.update()
            for name in training.decodings:
                if args.report_only and not (folder / f"{name}.json").is_file():
                    continue
                rows.append(cells.decode(grid, training, seed, name, trained, args.output))
                bar.update()
    if not rows:
        raise UserError(f"no finished cell in {args.output}")
    place = {t.name: number for number, t in enumerate(grid.trainings)}
    rows.sort(key=lambda row: (place[row["training"]], row["seed"]))
    write_json(args.output / "rows.json", rows)
    text = report.markdown(grid, rows)
    with atomic_write(args.output / "table.md") as stream:
        stream.write(text + "\n")
    print(text)
    if args.report is not None:
        write_into(args.report, "ablations", text)
    if not report.plot(rows, args.output / "passes.png"):
        print("no plot: matplotlib is not installed", file=sys.stderr)
    return rows


def main(argv: Optional[List[str]] = None) -> int:
    """Entry point."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq's import lets everything through
    try:
        run(parser().parse_args(argv))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
