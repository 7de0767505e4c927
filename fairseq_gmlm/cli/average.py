"""Average the parameters of checkpoints of one training run.

fairseq-gmlm average --inputs a.pt b.pt c.pt --output averaged.pt
fairseq-gmlm average --checkpoint-dir checkpoints --best 5 --metric bleu --output averaged.pt
fairseq-gmlm average --checkpoint-dir checkpoints --last 5 --output averaged.pt
"""

import argparse
from pathlib import Path
from typing import List

from fairseq_gmlm.errors import UserError

HELP = "average checkpoints: given ones, the best, or the last"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which checkpoints, and where to write."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--inputs", nargs="+", type=Path, metavar="FILE", help="these checkpoints")
    chosen.add_argument(
        "--best", type=int, metavar="N", help="the N best of --checkpoint-dir by --metric"
    )
    chosen.add_argument(
        "--last", type=int, metavar="N", help="the N newest epochs or updates of --checkpoint-dir"
    )
    parser.add_argument("--checkpoint-dir", type=Path, metavar="DIR", help="fairseq's --save-dir")
    parser.add_argument(
        "--metric",
        default="loss",
        help="what training kept the best by (--best-checkpoint-metric): loss, bleu ... "
        "(default: loss)",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="to write")


def _paths(args: argparse.Namespace) -> List[Path]:
    from fairseq_gmlm.data.checkpoints import best_checkpoints, last_checkpoints

    if args.inputs is not None:
        if args.checkpoint_dir is not None:
            raise UserError("--checkpoint-dir goes with --best or --last, not with --inputs")
        return args.inputs
    count, option = (args.best, "--best") if args.best is not None else (args.last, "--last")
    if args.checkpoint_dir is None:
        raise UserError(f"{option} {count} needs --checkpoint-dir")
    if count < 1:
        raise UserError(f"{option} {count}: must be 1 or more")
    if args.best is not None:
        return best_checkpoints(args.checkpoint_dir, count, args.metric)
    return last_checkpoints(args.checkpoint_dir, count)


def run(args: argparse.Namespace) -> int:
    """Average, write, and print which files went in.

    Raises:
        UserError: for files that cannot be read or do not fit together.
    """
    from fairseq_gmlm.data.averaging import average_checkpoints
    from fairseq_gmlm.data.checkpoints import save_checkpoint
    from fairseq_gmlm.data.files import plain_os_errors

    with plain_os_errors():
        paths = _paths(args)
        save_checkpoint(average_checkpoints(paths), args.output)
    for path in paths:
        print(f"averaged {path}")
    print(f"wrote {args.output}")
    return 0
