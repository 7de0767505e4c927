"""Exact theory of a small Ising model: how well masked training learns it, how fast chains mix.

Reads JSON with N, couplings ({"i,j": value} or a matrix) and fields, and prints JSON: traces of
asymptotic covariances, Poincare constants, mixing steps to total variation 0.1 from all minus and
stationary biases, as lists over the block size k = 1 .. N. At most ten spins.
"""

import argparse
import json

from fairseq_gmlm.errors import UserError

HELP = "exact learning and mixing constants of a small Ising model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL.json."""
    parser.add_argument("model", metavar="MODEL.json", help="file with N, couplings and fields")


def run(args: argparse.Namespace) -> int:
    """Print the report of the model in ``args.model``.

    Raises:
        UserError: a file that cannot be read or is no model, or too many spins.
    """
    from fairseq_gmlm.theory.model_file import read_ising
    from fairseq_gmlm.theory.report import ising_report

    model, seed = read_ising(args.model)
    try:
        report = ising_report(model)
    except ValueError as error:
        raise UserError(f"{args.model}: {error}") from error
    if seed is not None:
        report = {"seed": seed, **report}
    print(json.dumps(report, indent=1))
    return 0
