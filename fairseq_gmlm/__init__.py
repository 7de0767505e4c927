"""Generative masked language models for fairseq.

Importing the package (which ``--user-dir`` does) registers its tasks, models and criterions. The
pure parts (``masking``, ``decoding`` strategies, ``theory``) can be used without fairseq.
"""

from importlib.util import find_spec

from fairseq_gmlm.compat import (
    allow_checkpoint_types,
    avoid_fused_encoder_layers,
    copy_checkpoints_whole,
)
from fairseq_gmlm.version import __version__

__all__ = ["__version__", "register"]


def register() -> None:
    """Register everything with fairseq."""
    from fairseq_gmlm.criterions import gmlm_loss  # noqa: F401
    from fairseq_gmlm.models import gmlm_lm, gmlm_transformer  # noqa: F401
    from fairseq_gmlm.tasks import (  # noqa: F401
        language_modeling_gmlm,
        pretraining_gmlm,
        translation_gmlm,
    )


allow_checkpoint_types()
if find_spec("fairseq") is not None:
    avoid_fused_encoder_layers()
    copy_checkpoints_whole()
    register()
