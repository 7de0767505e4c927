"""Pretraining of a translation model on texts alone (spec 3.2).

The checkpoints are those of a ``gmlm_transformer``: ``translation_gmlm`` goes on from them with
``--finetune-from-model`` (all of it; same options of the model) or ``--init-from`` (parts of it).
"""

import glob
import logging
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from fairseq_gmlm.data.pretraining import OBJECTIVES, Objective, PretrainingDataset
from fairseq_gmlm.data.texts import TextDataset
from fairseq_gmlm.data.whole import check_split, data_folder
from fairseq_gmlm.tasks.corruption_options import TextConfig
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig, TranslationGMLMTask

logger = logging.getLogger(__name__)


@dataclass
class PretrainingGMLMConfig(TextConfig, TranslationGMLMConfig):
    """Texts and what is hidden of them; the noise on targets is the translation task's."""

    objective: ChoiceEnum(list(OBJECTIVES)) = field(
        default="span",
        metadata={
            "help": "span: 15 per cent of a text in spans of 3 tokens, the source shows the rest; "
            "long-span: 50 per cent in spans of 32; prefix-lm: the source is the beginning, the "
            "target the rest"
        },
    )
    span_mean: Optional[float] = field(
        default=None, metadata={"help": "mean span length, in place of the objective's own"}
    )
    span_density: Optional[float] = field(
        default=None, metadata={"help": "share of tokens in spans, in place of the objective's own"}
    )
    text_side: Optional[str] = field(
        default=None,
        metadata={
            "help": "language whose side of a translation data-bin is read (train.SRC-TGT.LANG); "
            "default: a data-bin made with fairseq-preprocess --only-source"
        },
    )


def objective_of(cfg: PretrainingGMLMConfig) -> Objective:
    """The objective that the options name.

    Raises:
        ValueError: a span option with ``prefix-lm``, or a value out of range.
    """
    named = OBJECTIVES[str(cfg.objective)]
    if named.mean is None:
        if cfg.span_mean is not None or cfg.span_density is not None:
            raise ValueError("--objective prefix-lm has no spans; drop --span-mean/--span-density")
        return named
    mean = named.mean if cfg.span_mean is None else cfg.span_mean
    return Objective(mean, named.density if cfg.span_density is None else cfg.span_density)


@register_task("pretraining_gmlm", dataclass=PretrainingGMLMConfig)
class PretrainingGMLMTask(TranslationGMLMTask):
    """Pairs made from texts, drawn anew each epoch."""

    name = "pretraining_gmlm"

    def __init__(self, cfg: PretrainingGMLMConfig, dictionary: Dictionary) -> None:
        if cfg.eval_bleu:
            raise ValueError("--eval-bleu has no meaning for --task pretraining_gmlm; drop it")
        super().__init__(cfg, dictionary, dictionary)
        self.objective = objective_of(cfg)

    @classmethod
    def setup_task(cls, cfg: PretrainingGMLMConfig, **kwargs: Any) -> "PretrainingGMLMTask":
        """Read the dictionary.

        Raises:
            ValueError: no data-bin given, or no dictionary in it.
        """
        if not cfg.data:
            raise ValueError("task pretraining_gmlm needs a data-bin: fairseq-train DATA_BIN")
        name = f"dict.{cfg.text_side}.txt" if cfg.text_side else "dict.txt"
        path = os.path.join(utils.split_paths(cfg.data)[0], name)
        if not os.path.isfile(path):
            raise ValueError(
                f"no such file: {path}; give a data-bin made with fairseq-preprocess --only-source, "
                "or a translation data-bin and --text-side LANG"
            )
        dictionary = Dictionary.load(path)
        logger.info(f"dictionary: {len(dictionary)} symbols")
        return cls(cfg, dictionary)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split.

        Raises:
            ValueError: it is not in the data-bin, or holds no text of two words.
        """
        folder = data_folder(self.cfg.data, epoch)
        check_split(folder, split)
        prefix = str(folder / split)
        if self.cfg.text_side:
            found = sorted(glob.glob(f"{glob.escape(prefix)}.*-*.{self.cfg.text_side}.idx"))
            prefix = found[0][: -len(".idx")] if found else f"{prefix}.*.{self.cfg.text_side}"
        lines = data_utils.load_indexed_dataset(
            prefix, self.src_dict, self.cfg.dataset_impl, combine=combine
        )
        if lines is None:
            raise ValueError(f"no split {split} in {folder} (no file {prefix}.idx); give another")
        seed = self.cfg.seed if isinstance(self.cfg.seed, int) else 1
        texts = TextDataset(
            lines,
            lines.sizes,
            self.src_dict,
            self.cfg.tokens_per_sample,
            str(self.cfg.sample_break_mode),
            seed,
        )
        self.datasets[split] = PretrainingDataset(
            texts,
            self.objective,
            self.src_dict,
            self.vocabulary.mask,
            seed,
            self.cfg.left_pad_source,
        )
        if not len(self.datasets[split]):
            raise ValueError(f"{prefix}.idx holds no text of two words; give a split with some")
