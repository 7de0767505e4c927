"""Turn a checkpoint of fairseq's cmlm_transformer into one of gmlm_transformer.

    fairseq-gmlm import-cmlm --path cmlm/checkpoint_best.pt --data data-bin --output imported.pt
    fairseq-generate data-bin --user-dir fairseq_gmlm --task translation_gmlm --source-bos \\
        --path imported.pt --iter-decode-max-iter 9 --iter-decode-force-max-iter

The imported model masks with <unk>, may predict every symbol that the stock model may, and expects
sources that begin with BOS, as it was trained. fairseq's length beam tries neighbours of one length:
--length-offset-beam 3 is its --iter-decode-with-beam 3.
"""

import argparse
import logging
from pathlib import Path

HELP = "use a checkpoint of fairseq's cmlm_transformer with this plugin's generator"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm import-cmlm``."""
    parser.add_argument("--path", required=True, metavar="FILE", help="cmlm_transformer checkpoint")
    parser.add_argument("--data", required=True, metavar="DIR", help="data-bin of its training")
    parser.add_argument("--output", required=True, metavar="FILE", help="checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Write the checkpoint."""
    from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint
    from fairseq_gmlm.models.stock import imported_checkpoint

    state = imported_checkpoint(load_checkpoint(Path(args.path)), Path(args.data), args.path)
    save_checkpoint(state, Path(args.output))
    logger.info(f"wrote {args.output}: decode it with --task translation_gmlm --source-bos")
    return 0
