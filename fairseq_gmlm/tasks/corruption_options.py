"""Options of the corruption, shared by the tasks."""

from dataclasses import dataclass, field
from typing import Any, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import II

from fairseq_gmlm.data.texts import BREAK_MODES
from fairseq_gmlm.masking import COUNTS, PRIORS, MaskPrior, Replacement


@dataclass
class CorruptionConfig(FairseqDataclass):
    """Which positions of a target are hidden, and by what."""

    mask_prior: ChoiceEnum(list(PRIORS)) = field(
        default="uniform",
        metadata={
            "help": "uniform: the mask ratio is drawn per example from U[0, --mask-ratio); "
            "fixed: it is --mask-ratio; number: --mask-number tokens of every example"
        },
    )
    mask_number: int = field(
        default=1, metadata={"help": "tokens masked in each example with --mask-prior number"}
    )
    mask_ratio: float = field(
        default=1.0, metadata={"help": "upper bound (uniform) or value (fixed) of the mask ratio"}
    )
    mask_count: ChoiceEnum(list(COUNTS)) = field(
        default="exact",
        metadata={
            "help": "exact: the drawn ratio gives a count, at least one; iid: each token alone "
            "with the drawn probability, possibly none"
        },
    )
    keep_prob: float = field(
        default=0.0,
        metadata={
            "help": "share of noised positions that keep their token; -1: drawn per example from "
            "U[0, .5)"
        },
    )
    random_prob: float = field(
        default=0.0,
        metadata={
            "help": "share of noised positions that get a random token; -1: drawn per example "
            "from U[0, .5); 1: no masks at all, matching --decode-start random"
        },
    )
    mask_range: int = field(
        default=0,
        metadata={
            "help": "number of per-position mask symbols, at least the longest target without BOS "
            "and EOS; 0: one symbol for all (PaDIR's use_range_mask)"
        },
    )
    train_dtype: ChoiceEnum(["float32", "bfloat16", "auto"]) = field(
        default="float32",
        metadata={
            "help": "bfloat16: autocast in training and validation, on CPU and GPU (fairseq's "
            "own --bf16 ends in an error on a CPU); auto: the same where that is fast (GPUs, CPUs "
            "with AVX-512), float32 elsewhere"
        },
    )
    seed: int = II("common.seed")


@dataclass
class TextConfig(FairseqDataclass):
    """How lines of text become examples."""

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


def corruption_of(cfg: Any) -> Tuple[MaskPrior, Replacement]:
    """The pure objects that the options stand for.

    Raises:
        ValueError: a value out of range, with the option's name.
    """
    return (
        MaskPrior(str(cfg.mask_prior), cfg.mask_ratio, str(cfg.mask_count), cfg.mask_number),
        Replacement(cfg.keep_prob, cfg.random_prob),
    )
