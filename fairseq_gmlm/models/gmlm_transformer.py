"""The translation model: encoder, bidirectional decoder, length head."""

import logging
from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from fairseq.models import (
    FairseqEncoderDecoderModel,
    register_model,
)
from fairseq.models.transformer import Embedding
from torch import Tensor, nn

from fairseq_gmlm.losses import TokenLoss, at_least_float32, gather
from fairseq_gmlm.models.architectures import register_architectures
from fairseq_gmlm.models.config import ARCHITECTURES, GMLMTransformerConfig
from fairseq_gmlm.models.decoder import Decoded, GMLMDecoder
from fairseq_gmlm.models.encoder import GMLMEncoder
from fairseq_gmlm.models.lengths import LengthLoss, build_length_predictor
from fairseq_gmlm.models.memory import Memory
from fairseq_gmlm.models.unrolling import Unrolling, unroll
from fairseq_gmlm.vocabulary import Vocabulary, fingerprint

logger = logging.getLogger(__name__)


@register_model("gmlm_transformer", dataclass=GMLMTransformerConfig)
class GMLMTransformerModel(FairseqEncoderDecoderModel):
    """A conditional masked language model: p(every target token | visible ones, source).

    The decoder reads a target with some positions hidden and predicts all of them at once. Called
    as ``model(src_tokens, src_lengths, prev_output_tokens)`` it returns logits for each position.
    ``src_tokens`` is int64 (B, S) ending in EOS; ``prev_output_tokens`` is int64 (B, T): BOS, the
    tokens known so far with ``model.vocabulary.mask`` where one is unknown, EOS, padding. The
    result is float (B, T, V). A decoding chain uses the three methods ``encode``, ``decode`` and
    ``lengths`` instead.
    """

    def __init__(
        self,
        cfg: GMLMTransformerConfig,
        encoder: GMLMEncoder,
        decoder: GMLMDecoder,
        vocabulary: Vocabulary,
    ) -> None:
        super().__init__(encoder, decoder)
        self.cfg = cfg
        self.vocabulary = vocabulary
        self.length_predictor = build_length_predictor(cfg)
        width = cfg.decoder_embed_dim
        self.rejecter = nn.Linear(width, 2) if cfg.learned_rejecter else None
        self.register_buffer("banned", vocabulary.banned.clone(), persistent=False)
        self.register_buffer("mask_ids", vocabulary.mask_ids.clone(), persistent=False)
        self.register_buffer("ordinary", vocabulary.ordinary.clone(), persistent=False)
        keys = [fingerprint(encoder.dictionary), fingerprint(decoder.dictionary)]
        # fairseq's --store-ema multiplies every entry whose name has no "version" in it, and cannot
        # do that to integers.
        self.register_buffer("dictionary_version", torch.tensor(keys))

    @classmethod
    def build_model(cls, cfg: GMLMTransformerConfig, task: Any) -> "GMLMTransformerModel":
        """Build for a task that has a mask symbol.

        Raises:
            ValueError: the task is not one of this plugin's, widths differ, or embeddings are
                to be shared between different dictionaries.
        """
        learns = [
            not cfg.freeze_decoder,
            not cfg.freeze_length and str(cfg.length_predictor) != "oracle",
            cfg.learned_rejecter and not cfg.freeze_rejecter,
        ]
        if not any(learns):
            raise ValueError(
                "--freeze-decoder with --freeze-length leaves nothing to train; drop one of them, "
                "or add --learned-rejecter"
            )
        if not hasattr(task, "vocabulary"):
            raise ValueError(
                f"gmlm_transformer cannot be used with task {type(task).__name__}; "
                "add: --task translation_gmlm"
            )
        if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
            raise ValueError(
                f"--encoder-embed-dim {cfg.encoder_embed_dim} and --decoder-embed-dim "
                f"{cfg.decoder_embed_dim} must be equal"
            )
        source, target = task.source_dictionary, task.target_dictionary
        encoder_embed = Embedding(len(source), cfg.encoder_embed_dim, source.pad())
        if cfg.share_all_embeddings:
            if source != target:
                raise ValueError(
                    "--share-all-embeddings needs one dictionary for both sides; prepare the data "
                    "with a joined dictionary, or drop the option"
                )
            cfg.share_decoder_input_output_embed = True
            decoder_embed = encoder_embed
        else:
            decoder_embed = Embedding(len(target), cfg.decoder_embed_dim, target.pad())
        token = task.vocabulary.mask if str(cfg.length_predictor) == "token" else None
        encoder = GMLMEncoder(cfg, source, encoder_embed, token)
        decoder = GMLMDecoder(cfg, target, decoder_embed)
        vocabulary = Vocabulary.stock_cmlm(target) if cfg.stock_cmlm else task.vocabulary
        return cls(cfg, encoder, decoder, vocabulary)

    # -- the three methods of the chain --------------------------------------------------------

    def encode(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None) -> Memory:
        """Encode sources int64 (B, S); keys and values of the cross-attention are made here."""
        states, real, padded, length_state = self.encoder(src_tokens, src_lengths)
        if self.cfg.freeze_encoder:
            states = states.detach()
            length_state = None if length_state is None else length_state.detach()
        mask = real[:, None, None, :] if padded else None
        return Memory(states, real, mask, self.decoder.project_memory(states), length_state)

    def decode(
        self,
        tokens: Tensor,
        memory: Memory,
        padded: bool = True,
        need_weights: bool = False,
        columns: Optional[Tensor] = None,
    ) -> Decoded:
        """One decoder pass over drafts int64 (K * B, T); see :class:`GMLMDecoder`."""
        return self.decoder(tokens, memory, padded, need_weights, columns)

    def lengths(self, memory: Memory) -> Tensor:
        """Raw output of the length head; ``length_predictor.candidates`` reads it."""
        if self.cfg.length_detach:
            memory = memory.detach()
        return self.length_predictor(memory)

    def logits(self, states: Tensor) -> Tensor:
        """(..., d) -> (..., V)."""
        return self.decoder.output_projection(states)

    def approval(self, states: Tensor) -> Tensor:
        """The learned rejecter's log-odds that the likeliest tokens are right, float (...)."""
        wrong, right = self.rejecter(states).float().unbind(-1)
        return right - wrong

    # -- training ------------------------------------------------------------------------------

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        plan: Optional[Unrolling] = None,
    ):
        """Logits (B, T, V); or with ``plan`` the losses of all training stages.

        The losses are computed in here, not in the criterion, so that wrappers for several
        processes see every parameter used within one call.
        """
        if plan is not None:
            return unroll(self, src_tokens, src_lengths, prev_output_tokens, plan)
        memory = self.encode(src_tokens, src_lengths)
        return self.logits(self.decode(prev_output_tokens, memory).states)

    def length_loss(self, memory: Memory, length: Tensor, smoothing: float) -> LengthLoss:
        """Loss of the length head, summed over sentences."""
        output = self.lengths(memory)
        if self.cfg.freeze_length:
            output = output.detach()
        return self.length_predictor.loss(output, length, smoothing)

    def rejecter_loss(
        self, states: Tensor, prediction: Tensor, target: Tensor, weights: Tensor
    ) -> TokenLoss:
        """The rejecter learns "the argmax is right" on detached states (spec 3.6).

        Args:
            states: (B, T, d), of the decoder.
            prediction, target: int64 (B, T).
            weights: float (B, T), of the tokens in the sum; 0 where there is nothing to predict.
        """
        hidden, index = gather(states.detach(), weights > 0)
        output = self.rejecter(hidden)
        if self.cfg.freeze_rejecter:
            output = output.detach()
        label = (prediction == target).reshape(-1)[index].long()
        loss = F.cross_entropy(at_least_float32(output), label, reduction="none")
        loss = (loss * weights.reshape(-1)[index]).sum()
        return TokenLoss(loss, loss.detach(), (output.argmax(-1) == label).sum())

    # -- fairseq's interface -------------------------------------------------------------------

    def max_positions(self):
        """Longest source and target, in tokens."""
        return self.encoder.max_positions(), self.decoder.max_positions()

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Load, and say what to do where dictionaries disagree.

        Raises:
            ValueError: the checkpoint was trained with other dictionaries.
        """
        self._check_dictionaries(state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def _check_dictionaries(self, state: Dict[str, Tensor]) -> None:
        for side, place in (("encoder", 0), ("decoder", 1)):
            dictionary = getattr(self, side).dictionary
            name = "source" if side == "encoder" else "target"
            rows = state.get(f"{side}.embed_tokens.weight")
            if rows is not None and rows.size(0) != len(dictionary):
                raise ValueError(
                    f"the checkpoint's {name} dictionary has {rows.size(0)} symbols, the data's "
                    f"has {len(dictionary)}; give the data-bin that the model was trained on (or "
                    "one made with its dict files: fairseq-gmlm prepare --srcdict/--tgtdict), and "
                    "the same --mask-range"
                )
            keys = state.get("dictionary_version")
            if keys is not None and int(keys[place]) != int(self.dictionary_version[place]):
                raise ValueError(
                    f"the checkpoint's {name} dictionary has the same size as the data's but other "
                    "symbols; give the data-bin that the model was trained on, or one made with "
                    "its dict files (fairseq-gmlm prepare --srcdict/--tgtdict)"
                )


register_architectures("gmlm_transformer", ARCHITECTURES)
