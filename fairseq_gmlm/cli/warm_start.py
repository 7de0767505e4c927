"""Write a checkpoint that starts fairseq's own NAT models from an autoregressive teacher.

    fairseq-gmlm warm-start --path teacher/checkpoint_best.pt --output start.pt
    fairseq-train data-bin --task translation_lev --arch cmlm_transformer \\
        --finetune-from-model start.pt ...

It fits cmlm_transformer, nonautoregressive_transformer and iterative_nonautoregressive_transformer of
the teacher's size, so that these baselines get the same head start as gmlm_transformer gets from
--init-from.
"""

import argparse
import logging
from pathlib import Path

HELP = "start checkpoint for fairseq's CMLM and NAT from an autoregressive teacher"

logger = logging.getLogger(__name__)

STOCK_LENGTHS = 256  # classes of the length head of fairseq's NAT models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm warm-start``."""
    parser.add_argument("--path", required=True, metavar="TEACHER.pt", help="trained transformer")
    parser.add_argument("--output", required=True, metavar="FILE", help="checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Write the checkpoint."""
    import torch

    from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint
    from fairseq_gmlm.errors import UserError

    teacher = load_checkpoint(Path(args.path))
    weights = teacher["model"]
    embedding = weights.get("decoder.embed_tokens.weight")
    if embedding is None or "encoder.embed_tokens.weight" not in weights:
        raise UserError(
            f"--path {args.path}: not an encoder-decoder transformer (it has no "
            "encoder.embed_tokens.weight and decoder.embed_tokens.weight)"
        )
    # The teacher has no length head; fairseq itself starts the table at zero.
    lengths = torch.zeros(STOCK_LENGTHS, embedding.size(1), dtype=embedding.dtype)
    weights = {**weights, "decoder.embed_length.weight": lengths}
    history = {
        "criterion_name": "LabelSmoothedDualImitationCriterion",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    state = {
        "args": teacher.get("args"),
        "cfg": teacher.get("cfg"),
        "model": weights,
        "optimizer_history": [history],
        "extra_state": {"epoch": 0},
        "last_optimizer_state": None,
    }
    save_checkpoint(state, Path(args.output))
    logger.info(f"wrote {args.output}: give it to fairseq-train as --finetune-from-model")
    return 0
