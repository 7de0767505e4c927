"""Decoding options as fields of a task: what ``fairseq-generate`` shows and reads."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_gmlm.decoding.orders import ORDERS
from fairseq_gmlm.decoding.precision import DTYPES
from fairseq_gmlm.decoding.rejecters import REJECTERS
from fairseq_gmlm.decoding.remasking import REMASKING
from fairseq_gmlm.decoding.schedules import SCHEDULES
from fairseq_gmlm.decoding.strategies import STRATEGIES


@dataclass
class DecodingConfig(FairseqDataclass):
    """Options that ``fairseq-generate`` and its kin take from the task.

    ``--eval-bleu-args`` and the keyword arguments of the hub interface take the same names, beside
    fairseq's own (iter_decode_max_iter, iter_decode_with_beam, sampling, ...).
    """

    decode_strategy: ChoiceEnum(sorted(STRATEGIES)) = field(
        default="mask-predict", metadata={"help": "what the decoding chain does in each pass"}
    )
    decode_start: ChoiceEnum(["mask", "random", "mask-range"]) = field(
        default="mask",
        metadata={
            "help": "refine: what stands at every position before the first pass; mask-range "
            "needs a model trained with --mask-range"
        },
    )
    mask_schedule: ChoiceEnum(list(SCHEDULES)) = field(
        default="linear",
        metadata={"help": "mask-predict: share of positions masked again after each pass"},
    )
    passes_per_token: float = field(
        default=0.0,
        metadata={
            "help": "mask-predict: a sentence gets this many passes for each of its tokens, rounded "
            "up, and never more than --iter-decode-max-iter allows; 0: as many as it allows"
        },
    )
    keep_above: float = field(
        default=0.0,
        metadata={
            "help": "mask-predict: a token predicted with at least this probability is not masked "
            "again, and a sentence without masks is done; 0: the schedule alone decides"
        },
    )
    rejecter: ChoiceEnum(list(REJECTERS)) = field(
        default="passthrough",
        metadata={
            "help": "refine: which predictions are taken back: none; repeats of the left "
            "neighbour; the least sure, by a linear schedule or always as many; or what the "
            "model's own head finds wrong (--learned-rejecter)"
        },
    )
    bottom_k: Optional[int] = field(
        default=None, metadata={"help": "rejecter constant: number of tokens rejected"}
    )
    bottom_percent: Optional[float] = field(
        default=None,
        metadata={"help": "rejecter constant: per cent of a sentence's tokens, at least one"},
    )
    remasking: ChoiceEnum(list(REMASKING)) = field(
        default="previous",
        metadata={
            "help": "refine: what stands at a rejected position in the next pass: what stood "
            "there at the start, what the pass had read, or the best token by summed logits "
            "(logits-sum keeps a buffer of the vocabulary's size for each position)"
        },
    )
    remask_stutter: bool = field(
        default=False,
        metadata={
            "help": "refine: also take back tokens that repeat their left neighbour, after the "
            "last pass too (with --remasking initial the repeat is then deleted)"
        },
    )
    forbid_stutter: bool = field(
        default=False,
        metadata={
            "help": "no prediction equals its neighbour: each pass takes the most probable tokens "
            "among those without repeats (not with --sampling)"
        },
    )
    decode_order: ChoiceEnum(list(ORDERS)) = field(
        default="random",
        metadata={
            "help": "any-order: order in which positions are filled; random draws one for each "
            "text, file reads --decode-order-file"
        },
    )
    decode_order_file: Optional[str] = field(
        default=None,
        metadata={
            "help": "any-order: file with one order a line, such as '3 1 2'; a text with n "
            "positions uses the line with n numbers"
        },
    )
    positions_per_pass: int = field(
        default=1,
        metadata={
            "help": "any-order, easy-first: positions filled in each pass (more, where the passes "
            "would not suffice)"
        },
    )
    decode_threshold: float = field(
        default=0.9,
        metadata={"help": "threshold: probability from which a prediction is kept for good"},
    )
    gibbs_block: int = field(
        default=1, metadata={"help": "gibbs: positions of the block that each pass redraws"}
    )
    length_offset_beam: int = field(
        default=1,
        metadata={"help": "odd number of neighbours tried around each predicted length"},
    )
    parallel_decodes: int = field(
        default=1,
        metadata={"help": "chains per length, from different random starts (or samples)"},
    )
    oracle_length: bool = field(
        default=False, metadata={"help": "decode at the reference's length (an analysis tool)"}
    )
    rescale_log_probs: bool = field(
        default=False,
        metadata={"help": "score samples under the tempered, truncated distribution"},
    )
    brevity_alpha: Optional[float] = field(
        default=None,
        metadata={
            "help": "divide the summed log-probability of n tokens by ((5 + n) / 6) ** alpha in "
            "place of n ** lenpen"
        },
    )
    rescore_passes: int = field(
        default=0,
        metadata={
            "help": "after the chain, N more passes (at least 2) score each candidate anew, each of "
            "which hides every N-th token; 0: the chain's own scores decide"
        },
    )
    prune_to: int = field(
        default=0,
        metadata={
            "help": "mask-predict, refine: candidates of each sentence that go on after pass "
            "--prune-after, those with the best scores so far; 0: all"
        },
    )
    prune_after: int = field(
        default=1, metadata={"help": "passes that all candidates take part in, see --prune-to"}
    )
    attention_pass: int = field(
        default=0,
        metadata={"help": "pass whose attention --print-alignment reads, 1 the first; 0: the last"},
    )
    decode_dtype: ChoiceEnum(list(DTYPES)) = field(
        default="float32",
        metadata={
            "help": "number format of the decoding model: bfloat16 (CPU, GPU), float16 (GPU), int8 "
            "(CPU); the length head stays in float32"
        },
    )
    decode_compile: bool = field(
        default=False,
        metadata={
            "help": "compile decoder passes (float32, bfloat16, float16); lengths and batches are "
            "padded so that few shapes occur, each of which is compiled once, for up to minutes"
        },
    )
    decode_cuda_graphs: bool = field(
        default=False,
        metadata={"help": "compile decoder passes and replay them from CUDA graphs (GPU)"},
    )
    allow_unk: bool = field(
        default=False, metadata={"help": "let the model output the unknown symbol"}
    )
    decode_seed: int = field(
        default=1,
        metadata={
            "help": "seed of random starts and samples; a sentence gets the same draws "
            "whatever batch it is in"
        },
    )
