"""Decoding options: fairseq's own keep their meaning, new ones are fields of the task."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_gmlm.compat import option
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.orders import ORDERS
from fairseq_gmlm.decoding.precision import DTYPES
from fairseq_gmlm.decoding.rejecters import REJECTERS, build_rejecter
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


@dataclass(frozen=True)
class DecodingOptions:
    """All that one generator needs to know, gathered from both sources.

    Attributes are those of :class:`DecodingConfig` and, from fairseq's generation options:

        passes: most decoder runs (``--iter-decode-max-iter`` + 1, as in fairseq).
        early_stop: not ``--iter-decode-force-max-iter``.
        length_beam: ``--iter-decode-with-beam``, number of predicted lengths.
        rerank: ``--iter-decode-with-external-reranker``.
        keep_history: ``--retain-iter-history``.
        length_penalty: ``--lenpen``; scores are sums divided by length ** lenpen.
        nbest: ``--nbest``.
        choice: sampling options.
        alignment: ``--print-alignment``: ``hard``, ``soft`` or empty.
    """

    passes: int
    early_stop: bool
    length_beam: int
    rerank: bool
    keep_history: bool
    length_penalty: float
    nbest: int
    choice: Choice
    alignment: str
    decode_strategy: str
    decode_start: str
    mask_schedule: str
    passes_per_token: float
    keep_above: float
    rejecter: str
    bottom_k: Optional[int]
    bottom_percent: Optional[float]
    remasking: str
    remask_stutter: bool
    forbid_stutter: bool
    decode_order: str
    decode_order_file: Optional[str]
    positions_per_pass: int
    decode_threshold: float
    gibbs_block: int
    length_offset_beam: int
    parallel_decodes: int
    oracle_length: bool
    brevity_alpha: Optional[float]
    rescore_passes: int
    attention_pass: int
    decode_dtype: str
    decode_compile: bool
    decode_cuda_graphs: bool
    allow_unk: bool
    decode_seed: int

    @property
    def candidates(self) -> int:
        """Chains per sentence: lengths x offsets x parallel decodes."""
        return self.length_beam * self.length_offset_beam * self.parallel_decodes

    @property
    def random_chains(self) -> bool:
        """Chains of one sentence differ even if every token is the likeliest."""
        return (
            (self.decode_strategy == "refine" and self.decode_start == "random")
            or (self.decode_strategy == "any-order" and self.decode_order == "random")
            or self.decode_strategy == "gibbs"
        )

    @classmethod
    def of(cls, task_cfg: Any, generation: Any) -> "DecodingOptions":
        """Generation arguments win over the task's options, which win over defaults.

        Raises:
            ValueError: options that contradict each other, named.
        """

        def get(name: str, default: Any) -> Any:
            return option(generation, name, option(task_cfg, name, default))

        sampling = bool(get("sampling", False))
        choice = Choice(
            temperature=float(get("temperature", 1.0)) if sampling else 0.0,
            top_k=max(0, int(get("sampling_topk", -1))),
            top_p=max(0.0, float(get("sampling_topp", -1.0))),
            rescale=bool(get("rescale_log_probs", False)),
        )
        names = [
            "decode_strategy", "decode_start", "mask_schedule", "passes_per_token", "keep_above",
            "rejecter", "remasking",
            "remask_stutter", "forbid_stutter", "length_offset_beam", "parallel_decodes", "oracle_length",
            "allow_unk", "decode_seed", "bottom_k", "bottom_percent", "brevity_alpha", "rescore_passes",
            "attention_pass", "decode_order", "decode_order_file", "positions_per_pass",
            "decode_threshold", "gibbs_block", "decode_dtype", "decode_compile",
            "decode_cuda_graphs",
        ]  # fmt: skip
        defaults = DecodingConfig()
        values = {name: get(name, getattr(defaults, name)) for name in names}
        values = {k: str(v) if isinstance(v, str) else v for k, v in values.items()}
        options = cls(
            passes=int(get("iter_decode_max_iter", 10)) + 1,
            early_stop=not get("iter_decode_force_max_iter", False),
            length_beam=int(get("iter_decode_with_beam", 1)),
            rerank=bool(get("iter_decode_with_external_reranker", False)),
            keep_history=bool(get("retain_iter_history", False)),
            length_penalty=float(get("lenpen", 1.0)),
            nbest=int(get("nbest", 1)),
            choice=choice,
            alignment=alignment_kind(get("print_alignment", "")),
            **values,
        )
        options.check()
        return options

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.passes < 1:
            raise ValueError(f"--iter-decode-max-iter must be at least 0, not {self.passes - 1}")
        for name in ("length_beam", "parallel_decodes", "nbest"):
            if getattr(self, name) < 1:
                shown = {"length_beam": "iter-decode-with-beam"}.get(name, name.replace("_", "-"))
                raise ValueError(f"--{shown} must be at least 1, not {getattr(self, name)}")
        if self.parallel_decodes > 1 and not self.random_chains and self.choice.greedy:
            raise ValueError(
                f"--parallel-decodes {self.parallel_decodes} would give equal results from a "
                "masked start; use --decode-strategy refine --decode-start random, or --sampling"
            )
        if self.forbid_stutter and not self.choice.greedy:
            raise ValueError("--forbid-stutter chooses the best tokens; leave out --sampling")
        self._check_order()
        if self.nbest > self.candidates:
            raise ValueError(
                f"--nbest {self.nbest} is more than the {self.candidates} candidates; raise "
                "--iter-decode-with-beam, --length-offset-beam or --parallel-decodes"
            )
        build_rejecter(self)  # refuses bottom options that it has no use for
        if self.attention_pass < 0:
            raise ValueError(f"--attention-pass must be at least 0, not {self.attention_pass}")
        if self.rescore_passes < 0 or self.rescore_passes == 1:
            raise ValueError(
                f"--rescore-passes must be 0 or at least 2, not {self.rescore_passes}: a single pass "
                "would hide the whole candidate"
            )
        if self.rescore_passes and self.rerank:
            raise ValueError(
                "--rescore-passes and --iter-decode-with-external-reranker both score the "
                "candidates; choose one of them"
            )
        if self.rerank and self.candidates < 2:
            raise ValueError(
                "--iter-decode-with-external-reranker needs several candidates; add "
                "--iter-decode-with-beam 5, say"
            )

    def _check_order(self) -> None:
        if (self.decode_order == "file") != (self.decode_order_file is not None):
            raise ValueError(
                f"--decode-order {self.decode_order} and --decode-order-file "
                f"{self.decode_order_file}: give both (--decode-order file) or neither"
            )
        if self.decode_order_file is not None and self.decode_strategy != "any-order":
            raise ValueError(
                "--decode-order-file belongs to --decode-strategy any-order, not to "
                f"{self.decode_strategy}"
            )
        for name in ("positions_per_pass", "gibbs_block"):
            if getattr(self, name) < 1:
                shown = name.replace("_", "-")
                raise ValueError(f"--{shown} must be at least 1, not {getattr(self, name)}")


def alignment_kind(value: Any) -> str:
    """``hard`` (also for a bare ``--print-alignment``), ``soft`` or empty."""
    name = str(getattr(value, "value", value) or "")
    if name in ("", "False", "None"):
        return ""
    return "soft" if name == "soft" else "hard"
