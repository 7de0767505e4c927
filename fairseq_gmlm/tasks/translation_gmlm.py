"""Translation with a generative masked language model."""

import contextlib
import logging
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional

import torch
from fairseq.data import LanguagePairDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from fairseq_gmlm.compat import before_loading
from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.data.inference import SourceDataset
from fairseq_gmlm.data.pairs import PairDataset
from fairseq_gmlm.data.whole import check_split, data_folder
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.reranking import check_sizes
from fairseq_gmlm.masking_rules import apply_rule, build_mask_rule, check_blind
from fairseq_gmlm.models.initialization import initialize_from
from fairseq_gmlm.tasks.corruption_options import CorruptionConfig, corruption_of
from fairseq_gmlm.tasks.masked import MaskedTask
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols

logger = logging.getLogger(__name__)

_TRAIN, _VALID = 1, 2
_CHECKED_BATCHES = 8  # first batches whose mask is redrawn to see that the rule is blind


@dataclass
class TranslationGMLMConfig(DecodingConfig, CorruptionConfig, TranslationConfig):
    """fairseq's translation options, and this plugin's."""

    init_from: Optional[str] = field(
        default=None,
        metadata={
            "help": "checkpoint of an autoregressive transformer, cmlm_transformer or "
            "gmlm_transformer to start from"
        },
    )
    init_parts: str = field(
        default="encoder,decoder,embeddings",
        metadata={
            "help": "what --init-from takes: any of encoder, decoder, embeddings, length, rejecter"
        },
    )
    mask_rule: str = field(
        default="none",
        metadata={
            "help": "which tokens are hidden, as many as the prior says: none: any; spans: "
            "neighbours together; or package.module:function (see fairseq_gmlm.masking_rules)"
        },
    )
    mask_span_mean: float = field(
        default=3.0, metadata={"help": "mean length, in tokens, of the spans of --mask-rule spans"}
    )
    source_bos: bool = field(
        default=False,
        metadata={"help": "sources begin with BOS, as in fairseq's own NAT models"},
    )


@register_task("translation_gmlm", dataclass=TranslationGMLMConfig)
class TranslationGMLMTask(MaskedTask, TranslationTask):
    """Pairs with a corrupted target; decodes with :class:`GMLMGenerator`."""

    cfg: TranslationGMLMConfig
    name = "translation_gmlm"

    def __init__(self, cfg: TranslationGMLMConfig, src_dict: Any, tgt_dict: Any) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        # Length of the plain dictionaries: autoregressive models (rerankers) know no masks.
        self.plain_sizes = len(src_dict), len(tgt_dict)
        for dictionary in (src_dict, tgt_dict):
            add_symbols(dictionary, cfg.mask_range)
        self.vocabulary = Vocabulary.of(tgt_dict, cfg.mask_range)
        self.prior, self.replacement = corruption_of(cfg)
        self.longest_source = cfg.max_source_positions
        self.mask_rule = build_mask_rule(cfg.mask_rule, cfg.mask_span_mean)
        self._rule_checks = _CHECKED_BATCHES

    # -- data ----------------------------------------------------------------------------------

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split; targets get BOS in front (and sources, if asked).

        Raises:
            ValueError: a file of it is damaged.
        """
        check_split(data_folder(self.cfg.data, epoch), split)
        buckets = self.cfg.num_batch_buckets
        self.cfg.num_batch_buckets = 0  # fairseq's own need numpy < 2, and know nothing of BOS
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        finally:
            self.cfg.num_batch_buckets = buckets
        bos = self.src_dict.bos() if self.cfg.source_bos else None
        self.datasets[split] = PairDataset.of(self.datasets[split], bos, self.seed(), buckets)

    def build_dataset_for_inference(
        self, src_tokens: List[Tensor], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Sources typed by a user: special symbols made harmless, over-long ones cut with a word."""
        if constraints is not None:
            raise ValueError("--constraints is not supported by translation_gmlm; leave it out")
        source = SourceDataset(
            src_tokens, self.src_dict, self.longest_source, bos=self.cfg.source_bos
        )
        pairs = LanguagePairDataset(
            source,
            source.sizes,
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=self.cfg.left_pad_source,
        )
        return PairDataset.of(pairs, source_bos=None)

    # -- model and criterion -------------------------------------------------------------------

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """A GMLM model; or, from a checkpoint, an autoregressive one as a reranker.

        Raises:
            ValueError: training another model with this task.
        """
        name = str(getattr(cfg, "_name", None) or getattr(cfg, "arch", ""))
        ours = name.startswith("gmlm_transformer")
        if not ours and not from_checkpoint:
            raise ValueError(
                f"task {self.name} trains --arch gmlm_transformer, not {name}; for {name} use "
                "--task translation_lev (NAT models) or --task translation (autoregressive ones)"
            )
        if not ours:
            with self._plain_dictionaries():
                model = super(TranslationTask, self).build_model(cfg, from_checkpoint)
            before_loading(model, check_sizes)
            return model
        model = super().build_model(cfg, from_checkpoint)
        if self.cfg.init_from and not from_checkpoint:
            initialize_from(model, self.cfg.init_from, self.cfg.init_parts)
        return model

    @contextlib.contextmanager
    def _plain_dictionaries(self) -> Iterator[None]:
        """Dictionaries without the symbols that this task added."""
        both = self.src_dict, self.tgt_dict
        self.src_dict, self.tgt_dict = (
            _truncated(d, size) for d, size in zip(both, self.plain_sizes)
        )
        try:
            yield
        finally:
            self.src_dict, self.tgt_dict = both

    def build_generator(
        self,
        models: List[Any],
        args: Any,
        seq_gen_cls: Optional[Any] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Any] = None,
    ) -> GMLMGenerator:
        """The generator; called alike by generate, interactive, ``--eval-bleu`` and the hub.

        Raises:
            ValueError: options that this decoder has no use for, or that contradict each other.
        """
        if prefix_allowed_tokens_fn is not None:
            raise ValueError("prefix_allowed_tokens_fn is not supported by translation_gmlm")
        if (extra_gen_cls_kwargs or {}).get("lm_model") is not None:
            raise ValueError("--lm-path is not supported by translation_gmlm; leave it out")
        # The models may know fewer positions than this command's --max-source-positions.
        known = [model.max_positions()[0] for model in models]
        self.longest_source = min(self.cfg.max_source_positions, *known)
        return GMLMGenerator(models, DecodingOptions.of(self.cfg, args))

    # -- steps ---------------------------------------------------------------------------------

    def pick(
        self, sample: Dict[str, Any], maskable: Tensor, real: Tensor, rng: CounterRNG
    ) -> Optional[Tensor]:
        """By ``--mask-rule``, whose first batches are checked: it must not see what it hides."""
        if self.mask_rule is None:
            return None
        target, source = sample["target"], sample["net_input"]["src_tokens"]
        given = (self.mask_rule, target, maskable, real, self.prior, rng)
        if self._rule_checks:
            self._rule_checks -= 1
            check_blind(*given, self.vocabulary.ordinary.to(target.device), source)
        return apply_rule(*given, source)

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        """Hypotheses for a batch."""
        with torch.no_grad():
            return generator.generate(
                models, sample, prefix_tokens=prefix_tokens, constraints=constraints
            )


def _truncated(dictionary: Any, size: int) -> Any:
    """The first ``size`` symbols of a dictionary."""
    plain = type(dictionary)()
    plain.symbols, plain.count = dictionary.symbols[:size], dictionary.count[:size]
    plain.indices = {symbol: i for i, symbol in enumerate(plain.symbols)}
    return plain
