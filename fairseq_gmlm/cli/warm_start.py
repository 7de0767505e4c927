"""Write a checkpoint that starts fairseq's own NAT models from an autoregressive teacher.

    fairseq-gmlm warm-start --path teacher/checkpoint_best.pt --output start.pt
    fairseq-train data-bin --task translation_lev --arch cmlm_transformer \\
        --finetune-from-model start.pt ...

It fits models of the teacher's size, so that these baselines get the same head start as gmlm_transformer
gets from --init-from. cmlm_transformer, nonautoregressive_transformer and
iterative_nonautoregressive_transformer have the same parameters, so that one file does for the three;
levenshtein_transformer and insertion_transformer have heads of their own (--arch), whose weights are
drawn as fairseq draws them.
"""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Dict

if TYPE_CHECKING:
    from torch import Tensor

HELP = "start checkpoint for fairseq's CMLM, NAT, Levenshtein and insertion from a teacher"

logger = logging.getLogger(__name__)

CLASSES = 256  # of fairseq's heads for lengths and for the number of insertions
LENGTH_HEAD = (
    "cmlm_transformer",
    "nonautoregressive_transformer",
    "iterative_nonautoregressive_transformer",
)
EDIT_HEADS = ("levenshtein_transformer", "insertion_transformer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm warm-start``."""
    parser.add_argument("--path", required=True, metavar="TEACHER.pt", help="trained transformer")
    parser.add_argument(
        "--arch",
        choices=[*LENGTH_HEAD, *EDIT_HEADS],
        default=LENGTH_HEAD[0],
        help="model to be trained (default: %(default)s, the same for models with a length head)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of new heads (default: 1)")
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
    torch.manual_seed(args.seed)
    heads = new_heads(args.arch, embedding.size(1))
    weights = {**weights, **{k: v.to(embedding.dtype) for k, v in heads.items()}}
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


def new_heads(arch: str, width: int) -> Dict[str, "Tensor"]:
    """Parameters that a model has and its teacher has not, as fairseq 0.12 starts them.

    Args:
        arch: one of ``LENGTH_HEAD`` or ``EDIT_HEADS``.
        width: of the decoder.
    """
    import torch

    if arch in LENGTH_HEAD:
        return {"decoder.embed_length.weight": torch.zeros(CLASSES, width)}
    if arch == "insertion_transformer":
        pool = torch.nn.init.xavier_uniform_(torch.empty(width, 2 * width))
        return {"decoder.pool_out.weight": pool, "decoder.pool_out.bias": torch.zeros(width)}
    return {
        "decoder.embed_mask_ins.weight": torch.randn(CLASSES, 2 * width) * (2 * width) ** -0.5,
        "decoder.embed_word_del.weight": torch.randn(2, width) * width**-0.5,
    }
