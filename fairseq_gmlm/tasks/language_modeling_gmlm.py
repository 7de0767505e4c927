"""Texts without a source: training a masked language model (u-PMLM, BERT and between)."""

import json
import logging
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Dict, Optional

from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.data.texts import BREAK_MODES, TextDataset
from fairseq_gmlm.masking import Corruption, columns, corrupt, pick_words
from fairseq_gmlm.tasks.corruption_options import CorruptionConfig, corruption_of
from fairseq_gmlm.tasks.precision import in_train_dtype
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols
from fairseq_gmlm.words import MARKERS, WordTable, guess_marker, word_table

logger = logging.getLogger(__name__)

_TRAIN, _VALID = 1, 2


@dataclass
class LanguageModelingGMLMConfig(CorruptionConfig):
    """Data and corruption of texts."""

    data: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder made by fairseq-preprocess --only-source; several, separated by ':', "
            "are taken in turn, one an epoch"
        },
    )
    sample_break_mode: ChoiceEnum(list(BREAK_MODES)) = field(
        default="eos",
        metadata={
            "help": "eos: one line a text; none: blocks of --tokens-per-sample; complete: as many "
            "whole lines as fit; complete_doc: the same, and never across empty lines"
        },
    )
    tokens_per_sample: int = field(
        default=512, metadata={"help": "longest text, in tokens with BOS and EOS"}
    )
    whole_words: ChoiceEnum([*MARKERS, "auto"]) = field(
        default="none",
        metadata={
            "help": "mask whole words, whose subwords are marked as by subword-nmt (@@), "
            "sentencepiece or GPT-2's BPE; auto: look at the dictionary; ratios then count words"
        },
    )
    whole_words_json: Optional[str] = field(
        default=None,
        metadata={"help": "GPT-2's encoder.json, if the dictionary has its numbers for symbols"},
    )
    train_dtype: ChoiceEnum(["float32", "bfloat16"]) = field(
        default="float32",
        metadata={"help": "bfloat16: autocast in training and validation, on CPU and GPU"},
    )
    dataset_impl: Optional[str] = field(
        default=None, metadata={"help": "format of the binarised files; found by itself"}
    )
    seed: int = II("common.seed")


@register_task("language_modeling_gmlm", dataclass=LanguageModelingGMLMConfig)
class LanguageModelingGMLMTask(FairseqTask):
    """Texts BOS ... EOS of which any part may be hidden.

    ``fairseq-gmlm fill`` generates with its models, ``fairseq-gmlm score`` scores texts.
    """

    cfg: LanguageModelingGMLMConfig

    def __init__(self, cfg: LanguageModelingGMLMConfig, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        add_symbols(dictionary, cfg.mask_range)
        self.vocabulary = Vocabulary.of(dictionary, cfg.mask_range)
        self.prior, self.replacement = corruption_of(cfg)
        self.longest_text = cfg.tokens_per_sample

    @classmethod
    def setup_task(cls, cfg: LanguageModelingGMLMConfig, **kwargs: Any) -> "FairseqTask":
        """Read ``dict.txt``.

        Raises:
            ValueError: no data-bin given, or no dictionary in it.
        """
        if not cfg.data:
            raise ValueError("task language_modeling_gmlm needs a data-bin: fairseq-train DATA_BIN")
        path = os.path.join(utils.split_paths(cfg.data)[0], "dict.txt")
        if not os.path.isfile(path):
            raise ValueError(
                f"no such file: {path}; make the folder with fairseq-preprocess --only-source"
            )
        dictionary = Dictionary.load(path)
        logger.info(f"dictionary: {len(dictionary)} symbols")
        return cls(cfg, dictionary)

    @cached_property
    def words(self) -> Optional[WordTable]:
        """Where words begin, if whole words are masked; made when training begins."""
        marker, symbols = str(self.cfg.whole_words), self.dictionary.symbols
        if marker == "auto":
            marker = guess_marker(symbols)
            logger.info(f"--whole-words auto: {marker}")
        if marker == "none":
            return None
        spelled = None
        if self.cfg.whole_words_json:
            with open(self.cfg.whole_words_json, encoding="utf-8") as stream:
                spelled = {str(number): piece for piece, number in json.load(stream).items()}
        return word_table(symbols, marker, spelled)

    # -- data ----------------------------------------------------------------------------------

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split.

        Raises:
            ValueError: it is not in the data-bin, or holds no text.
        """
        paths = utils.split_paths(self.cfg.data)
        prefix = os.path.join(paths[(epoch - 1) % len(paths)], split)
        lines = data_utils.load_indexed_dataset(
            prefix, self.dictionary, self.cfg.dataset_impl, combine=combine
        )
        if lines is None:
            raise ValueError(
                f"no split {split} in {os.path.dirname(prefix)} (no file {prefix}.idx); give "
                "another, or make it with fairseq-preprocess --only-source"
            )
        self.datasets[split] = TextDataset(
            lines,
            lines.sizes,
            self.dictionary,
            self.cfg.tokens_per_sample,
            str(self.cfg.sample_break_mode),
            self.cfg.seed,
        )
        if not len(self.datasets[split]):
            raise ValueError(f"{prefix}.idx holds no text; give a split with some")

    @property
    def source_dictionary(self) -> Dictionary:
        """The only dictionary, with the mask symbol."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The same."""
        return self.dictionary

    def max_positions(self) -> int:
        """Longest text, in tokens with BOS and EOS."""
        return self.cfg.tokens_per_sample

    # -- model and criterion -------------------------------------------------------------------

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """A ``gmlm_lm``.

        Raises:
            ValueError: another model.
        """
        name = str(getattr(cfg, "_name", None) or getattr(cfg, "arch", ""))
        if not name.startswith("gmlm_lm"):
            raise ValueError(
                f"task language_modeling_gmlm trains --arch gmlm_lm, not {name}; for {name} use "
                "--task language_modeling (autoregressive), masked_lm (RoBERTa) or translation_gmlm"
            )
        return super().build_model(cfg, from_checkpoint)

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The criterion ``gmlm_loss``.

        Raises:
            ValueError: another criterion.
        """
        name = str(getattr(cfg, "_name", None) or getattr(cfg, "criterion", ""))
        if name != "gmlm_loss":
            raise ValueError(
                f"task language_modeling_gmlm needs --criterion gmlm_loss, not {name}; "
                "add: --criterion gmlm_loss"
            )
        if str(getattr(cfg, "stage_remasking", "none")) != "none":
            raise ValueError(
                f"--stage-remasking {cfg.stage_remasking} is for translation_gmlm; leave it out"
            )
        try:
            return super().build_criterion(cfg, from_checkpoint)
        except TypeError:  # the official 0.12.2 has no second argument
            return super().build_criterion(cfg)

    def build_generator(self, models: Any, args: Any, *unused: Any, **also: Any) -> Any:
        """Not through fairseq-generate.

        Raises:
            ValueError: always, naming the command that does it.
        """
        raise ValueError(
            "fairseq-generate has no source to read for task language_modeling_gmlm; generate with "
            "fairseq-gmlm fill --path CHECKPOINT --data DATA_BIN (templates on standard input)"
        )

    # -- steps ---------------------------------------------------------------------------------

    def corrupt(self, sample: Dict[str, Any], stage: int, number: int) -> Corruption:
        """Corrupt a batch; the noise depends on the seed, the update and each text's number.

        So it is the same in any micro-batch, on any number of processes, and after resuming. The
        noise of validation depends on the number alone: its losses compare between runs.
        """
        target, vocabulary = sample["target"], self.vocabulary
        real = target.ne(vocabulary.pad)
        maskable = real & target.ne(vocabulary.bos) & target.ne(vocabulary.eos)
        seed = self.cfg.seed if stage == _TRAIN else 0
        rng = CounterRNG((stage, number, seed), sample["id"].to(target.device))
        noised = None
        if self.words is not None:
            begins = self.words.starts(target)
            noised = pick_words(maskable, begins, self.prior, rng, columns(real))
        return corrupt(
            target,
            maskable,
            real,
            self.prior,
            self.replacement,
            vocabulary.mask_ids.to(target.device),
            vocabulary.ordinary.to(target.device),
            rng,
            noised,
        )

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """One forward and backward pass over a corrupted batch."""
        sample["corruption"] = self.corrupt(sample, _TRAIN, update_num)
        criterion = in_train_dtype(self.cfg, criterion)
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def valid_step(self, sample, model, criterion):
        """Loss under noise that is the same at every validation."""
        sample["corruption"] = self.corrupt(sample, _VALID, 0)
        return super().valid_step(sample, model, in_train_dtype(self.cfg, criterion))
