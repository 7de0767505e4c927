"""Checkpoints for commands that are not fairseq's own."""

import argparse
import logging
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_gmlm.errors import UserError


def add_model_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Where the model and its dictionary are."""
    add = parser.add_argument
    add(
        "--path",
        required=required,
        metavar="CHECKPOINT",
        help="several, separated by ':', are averaged",
    )
    add("--data", required=required, metavar="DATA_BIN", help="folder with the dictionary")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--max-tokens", type=int, default=4096, metavar="N", help="tokens in one batch")
    add(
        "--seed", type=int, default=1, metavar="N", help="of random orders and samples (default: 1)"
    )


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """How to decode, by the names that ``compare`` takes too."""
    add = parser.add_argument
    add("--options", metavar="FILE.yaml", help="decoding options, as in compare's 'options'")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one decoding option of fairseq or this plugin, such as iter_decode_max_iter=3",
    )


def decoding_values(args: argparse.Namespace) -> Dict[str, Any]:
    """The options of :func:`add_decoding_arguments`.

    Raises:
        UserError: a file that cannot be read, or a setting without a value.
    """
    from fairseq_gmlm.analysis.decoding_values import read_values

    return read_values(args.options, args.set)


def load_models(args: argparse.Namespace) -> Tuple[List[Any], Any]:
    """Models in evaluation mode, and their task.

    Raises:
        UserError: a file that is missing or is no checkpoint, or another dictionary.
    """
    import torch
    from fairseq import checkpoint_utils, utils

    import fairseq_gmlm
    from fairseq_gmlm.data.checkpoints import load_checkpoint

    fairseq_gmlm.register()
    # fairseq logs its whole configuration on loading.
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens must be at least 1, not {args.max_tokens}")
    paths = utils.split_paths(args.path)
    try:
        for path in paths:  # fairseq does not name a file that it cannot read
            load_checkpoint(Path(path), mmap=True)
    except UserError as error:
        raise UserError(f"--path {args.path}: {error}") from error
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            paths, arg_overrides={"data": args.data}
        )
    except Exception as error:  # fairseq raises plain Exception, too
        reason = str(error).strip().split("\n")
        raise UserError(
            f"--path {args.path}, --data {args.data}: cannot be loaded: {' '.join(reason[:2])}"
        ) from error
    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    for model in models:
        model.eval().to(device)
    return models, task
