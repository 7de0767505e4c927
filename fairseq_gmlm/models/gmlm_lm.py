"""The masked language model (u-PMLM): p(every token | the visible ones), without a source."""

import logging
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoderModel, register_model
from torch import Tensor, nn

from fairseq_gmlm.models.architectures import register_architectures
from fairseq_gmlm.models.decoder import Decoded
from fairseq_gmlm.models.lm_checkpoints import dictionary_key, fit_state
from fairseq_gmlm.models.lm_config import LM_ARCHITECTURES, GMLMLanguageModelConfig
from fairseq_gmlm.models.lm_encoder import ClassificationHead, PredictionHead, TextEncoder
from fairseq_gmlm.models.lm_training import masked_loss
from fairseq_gmlm.models.unrolling import Unrolling
from fairseq_gmlm.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@register_model("gmlm_lm", dataclass=GMLMLanguageModelConfig)
class GMLMLanguageModel(FairseqEncoderModel):
    """A bidirectional encoder that predicts hidden tokens; u-PMLM when trained on any mask ratio.

    Called as ``model(tokens)`` with int64 (B, T) -- BOS, the known tokens with
    ``model.vocabulary.mask`` where one is hidden, EOS, padding -- it returns logits (B, T, V) and a
    dict, as fairseq's RoBERTa does. A decoding chain uses ``decode`` and ``logits``. With
    ``classification_head_name`` it returns that head's logits (B, classes), which is what fairseq's
    ``sentence_prediction`` criterion calls.
    """

    def __init__(
        self, cfg: GMLMLanguageModelConfig, encoder: TextEncoder, vocabulary: Optional[Vocabulary]
    ) -> None:
        super().__init__(encoder)
        self.cfg = cfg
        self.args = cfg  # where 0.12.2's ``sentence_prediction`` looks for options
        self.vocabulary = vocabulary
        self.lm_head = PredictionHead(cfg, len(encoder.dictionary))
        self.classification_heads = nn.ModuleDict()
        if vocabulary is not None:
            self.register_buffer("banned", vocabulary.banned.clone(), persistent=False)
            self.register_buffer("mask_ids", vocabulary.mask_ids.clone(), persistent=False)
            self.register_buffer("ordinary", vocabulary.ordinary.clone(), persistent=False)
        self.register_buffer("dictionary_key", torch.tensor(dictionary_key(encoder.dictionary)))

    @classmethod
    def build_model(cls, cfg: GMLMLanguageModelConfig, task: Any) -> "GMLMLanguageModel":
        """Build for ``language_modeling_gmlm``, or for a fine-tuning task without a mask symbol.

        Raises:
            ValueError: a translation task, or texts longer than the model's positions.
        """
        source, target = task.source_dictionary, task.target_dictionary
        if target is not None and target is not source and target != source:
            raise ValueError(
                f"gmlm_lm is a model of texts without a source; {type(task).__name__} has two "
                "dictionaries: use --arch gmlm_transformer, or --task language_modeling_gmlm"
            )
        longest = getattr(task, "longest_text", None)
        if longest is not None and longest > cfg.max_positions:
            raise ValueError(
                f"--tokens-per-sample {longest} is longer than --max-positions "
                f"{cfg.max_positions}; raise the second or lower the first"
            )
        return cls(cfg, TextEncoder(cfg, source), getattr(task, "vocabulary", None))

    # -- the two methods of the chain ----------------------------------------------------------

    def decode(
        self, tokens: Tensor, memory: Any = None, padded: bool = True, need_weights: bool = False
    ) -> Decoded:
        """States (R, T, d) from which :meth:`logits` predicts; ``memory`` is not looked at.

        Raises:
            ValueError: attention maps are asked for; this model keeps none.
        """
        if need_weights:
            raise ValueError("gmlm_lm gives no attention maps; call decode without need_weights")
        return Decoded(self.lm_head(self.encoder(tokens, padded)))

    def logits(self, states: Tensor) -> Tensor:
        """(..., d) -> (..., V)."""
        weight = self.encoder.embed_tokens.weight
        return F.linear(states, weight, self.lm_head.bias.to(states.dtype))

    # -- training ------------------------------------------------------------------------------

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        prev_output_tokens: Optional[Tensor] = None,
        plan: Optional[Unrolling] = None,
        features_only: bool = False,
        classification_head_name: Optional[str] = None,
        **unused: Any,
    ):
        """Logits and an empty dict; or features; or a head's logits; or losses.

        Args:
            src_tokens: int64 (B, T).
            src_lengths: unused; fairseq passes it.
            prev_output_tokens: with ``plan``: the corrupted tokens.
            plan: what the criterion wants; then the result is an ``Unrolled``.
            features_only: return states (B, T, d) in place of logits.
            classification_head_name: return (B, classes) from that head.
        """
        if plan is not None:
            return masked_loss(self, prev_output_tokens, plan)
        states = self.encoder(src_tokens)
        if classification_head_name is not None:
            return self.classification_heads[classification_head_name](states), {}
        return (states if features_only else self.logits(self.lm_head(states))), {}

    # -- classification heads ------------------------------------------------------------------

    def register_classification_head(
        self,
        name: str,
        num_classes: Optional[int] = None,
        inner_dim: Optional[int] = None,
        **unused: Any,
    ) -> None:
        """Put a fresh head under ``name`` (a head of that name is replaced, with a warning)."""
        if name in self.classification_heads:
            logger.warning(f"classification head {name} is replaced by a fresh one")
        self.classification_heads[name] = ClassificationHead(
            self.cfg, num_classes, inner_dim or self.cfg.encoder_embed_dim
        )

    # -- fairseq's interface -------------------------------------------------------------------

    def get_normalized_probs(
        self, net_output: Tuple, log_probs: bool, sample: Optional[Dict] = None
    ) -> Tensor:
        """(Log-)softmax of the first item of what ``forward`` returned."""
        logits = net_output[0].float()
        return logits.log_softmax(-1) if log_probs else logits.softmax(-1)

    @property
    def supported_targets(self):
        """fairseq asks which targets a language model can predict: the text itself."""
        return {"self"}

    def max_positions(self) -> int:
        """Longest text, in tokens with BOS and EOS."""
        return self.encoder.max_positions()

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Make a checkpoint of another task fit: heads, the mask's row, the position table.

        Raises:
            ValueError: the checkpoint was trained with another dictionary.
        """
        super().upgrade_state_dict_named(state_dict, name)
        fit_state(self, state_dict, f"{name}." if name else "")


register_architectures("gmlm_lm", LM_ARCHITECTURES)
