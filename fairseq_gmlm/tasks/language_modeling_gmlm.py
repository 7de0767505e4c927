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
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.data.texts import TextDataset
from fairseq_gmlm.data.whole import check_split, data_folder
from fairseq_gmlm.masking import columns, pick_words
from fairseq_gmlm.tasks.corruption_options import CorruptionConfig, TextConfig, corruption_of
from fairseq_gmlm.tasks.masked import MaskedTask
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols
from fairseq_gmlm.words import MARKERS, WordTable, guess_marker, word_table

logger = logging.getLogger(__name__)

_TRAIN, _VALID = 1, 2


@dataclass
class LanguageModelingGMLMConfig(TextConfig, CorruptionConfig):
    """Data and corruption of texts."""

    data: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder made by fairseq-preprocess --only-source; several, separated by ':', "
            "are taken in turn, one an epoch"
        },
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
    dataset_impl: Optional[str] = field(
        default=None, metadata={"help": "format of the binarised files; found by itself"}
    )


@register_task("language_modeling_gmlm", dataclass=LanguageModelingGMLMConfig)
class LanguageModelingGMLMTask(MaskedTask, FairseqTask):
    """Texts BOS ... EOS of which any part may be hidden.

    ``fairseq-gmlm fill`` generates with its models, ``fairseq-gmlm score`` scores texts.
    """

    cfg: LanguageModelingGMLMConfig
    name = "language_modeling_gmlm"

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
        folder = data_folder(self.cfg.data, epoch)
        check_split(folder, split)
        prefix = str(folder / split)
        lines = data_utils.load_indexed_dataset(
            prefix, self.dictionary, self.cfg.dataset_impl, combine=combine
        )
        if lines is None:
            raise ValueError(
                f"no split {split} in {folder} (no file {prefix}.idx); give "
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
            ValueError: another criterion, or an option of it that is for translation.
        """
        if str(getattr(cfg, "stage_remasking", "none")) != "none":
            raise ValueError(
                f"--stage-remasking {cfg.stage_remasking} is for translation_gmlm; leave it out"
            )
        return super().build_criterion(cfg, from_checkpoint)

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

    def pick(
        self, sample: Dict[str, Any], maskable: Tensor, real: Tensor, rng: CounterRNG
    ) -> Optional[Tensor]:
        """Whole words, if they are asked for."""
        if self.words is None:
            return None
        begins = self.words.starts(sample["target"])
        return pick_words(maskable, begins, self.prior, rng, columns(real))
