"""Decode one test set with several systems and compare quality and speed.

    fairseq-gmlm compare systems.yaml --json rows.json --csv rows.csv --markdown table.md

systems.yaml:

    data: data-bin
    batch_size: 32
    systems:
      - name: teacher, beam 5
        path: teacher/checkpoint_best.pt
        options: {beam: 5}
      - name: GMLM, 4 passes
        path: gmlm/checkpoint_best.pt
        options: {iter_decode_max_iter: 3, iter_decode_with_beam: 3}

Options have the names of fairseq's and this plugin's decoding options, with underscores. Every
system is timed on the same sentences, in turn, with length search and reranking inside the clock.
"""

import argparse
import logging
from pathlib import Path

HELP = "compare systems on one test set: quality, passes, speed"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm compare``."""
    parser.add_argument("config", metavar="SYSTEMS.yaml", help="what to compare")
    parser.add_argument("--data", metavar="DIR", help="data-bin, in place of the file's")
    parser.add_argument("--json", metavar="FILE", help="write a list of rows")
    parser.add_argument("--csv", metavar="FILE", help="write rows")
    parser.add_argument("--markdown", metavar="FILE", help="write the table")
    parser.add_argument(
        "--outputs", metavar="DIR", help="write each system's translations, one a line"
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print the table."""
    from fairseq_gmlm.comparison.comparison import compare
    from fairseq_gmlm.comparison.report import markdown, write_reports
    from fairseq_gmlm.comparison.spec import read_spec

    spec = read_spec(Path(args.config))
    rows = compare(spec, args.data or spec.data, Path(args.outputs) if args.outputs else None)
    write_reports(rows, args.json, args.csv, args.markdown)
    print(markdown(rows))
    return 0
