"""Decode one test set with several systems and compare quality and speed.

    fairseq-gmlm compare systems.yaml --cache cells --json rows.json --csv rows.csv \\
        --markdown table.md --latex table.tex --html page.html --plots figures

systems.yaml:

    data: data-bin
    batch_size: 32
    baseline: teacher, beam 5
    systems:
      - name: teacher, beam 5
        path: teacher/checkpoint_best.pt
        options: {beam: 5}
      - name: "GMLM, {passes} passes"
        paths: [gmlm1/checkpoint_best.pt, gmlm2/checkpoint_best.pt]
        options: {iter_decode_with_beam: 3}
        sweep: {iter_decode_max_iter: [0, 3, 9]}

Options have the names of fairseq's and this plugin's decoding options, with underscores. Every
system is timed on the same sentences, in turn, with length search and reranking inside the clock.
docs/comparing.md lists all keys.
"""

import argparse
import logging
from dataclasses import replace
from pathlib import Path

HELP = "compare systems on one test set: quality, passes, speed"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm compare``."""
    add = parser.add_argument
    add("config", metavar="SYSTEMS.yaml", help="what to compare")
    add("--data", metavar="DIR", help="data-bin, in place of the file's")
    add("--split", metavar="NAME", help="part of the data, in place of the file's")
    add(
        "--cache",
        metavar="DIR",
        help="keep finished translations and times here, and do not compute them again",
    )
    add(
        "--retime",
        action="store_true",
        help="measure all times anew, beside each other, though they are in the cache",
    )
    add("--json", metavar="FILE", help="write a list of rows")
    add("--csv", metavar="FILE", help="write rows")
    add("--markdown", metavar="FILE", help="write the tables")
    add("--latex", metavar="FILE", help="write the tables as tabular")
    add("--html", metavar="FILE", help="write one page with tables and plots (needs matplotlib)")
    add("--plots", metavar="DIR", help="write the plots as PNG and SVG (needs matplotlib)")
    add("--outputs", metavar="DIR", help="write each system's translations, one a line")


def run(args: argparse.Namespace) -> int:
    """Compare and print the table."""
    from fairseq_gmlm.comparison.comparison import compare
    from fairseq_gmlm.comparison.plots import import_matplotlib
    from fairseq_gmlm.comparison.reading import read_spec
    from fairseq_gmlm.comparison.report import Reports, markdown, write_reports
    from fairseq_gmlm.data.files import check_target, plain_os_errors

    for name in ("json", "csv", "markdown", "latex", "html"):
        check_target(getattr(args, name), f"--{name}")
    reports = Reports(args.json, args.csv, args.markdown, args.latex, args.html, args.plots)
    if reports.draws:
        import_matplotlib()  # before the work, not after it
    spec = read_spec(Path(args.config))
    if args.split:
        spec = replace(spec, split=args.split)
    # fairseq logs its whole configuration for every checkpoint.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    with plain_os_errors():
        rows = compare(
            spec,
            args.data or spec.data,
            Path(args.outputs) if args.outputs else None,
            Path(args.cache) if args.cache else None,
            args.retime,
        )
        write_reports(rows, reports)
    print(markdown(rows))
    return 0
