"""Decoding options: fairseq's own keep their meaning, new ones are fields of the task."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_gmlm.compat import option
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.rejecters import REJECTERS
from fairseq_gmlm.decoding.schedules import SCHEDULES
from fairseq_gmlm.decoding.strategies import STRATEGIES
from fairseq_gmlm.decoding.strategies.refine import REMASKING


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
    rejecter: ChoiceEnum(sorted(REJECTERS)) = field(
        default="passthrough", metadata={"help": "refine: which predictions are taken back"}
    )
    remasking: ChoiceEnum(list(REMASKING)) = field(
        default="previous",
        metadata={"help": "refine: what stands at a rejected position in the next pass"},
    )
    remask_stutter: bool = field(
        default=False,
        metadata={
            "help": "refine: also take back tokens that repeat their left neighbour, after the "
            "last pass too (with --remasking initial the repeat is then deleted)"
        },
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
        alignment: ``--print-alignment``.
    """

    passes: int
    early_stop: bool
    length_beam: int
    rerank: bool
    keep_history: bool
    length_penalty: float
    nbest: int
    choice: Choice
    alignment: bool
    decode_strategy: str
    decode_start: str
    mask_schedule: str
    rejecter: str
    remasking: str
    remask_stutter: bool
    length_offset_beam: int
    parallel_decodes: int
    oracle_length: bool
    allow_unk: bool
    decode_seed: int

    @property
    def candidates(self) -> int:
        """Chains per sentence: lengths x offsets x parallel decodes."""
        return self.length_beam * self.length_offset_beam * self.parallel_decodes

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
            "decode_strategy", "decode_start", "mask_schedule", "rejecter", "remasking",
            "remask_stutter", "length_offset_beam", "parallel_decodes", "oracle_length",
            "allow_unk", "decode_seed",
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
            alignment=bool(get("print_alignment", None)),
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
        random_start = self.decode_strategy == "refine" and self.decode_start == "random"
        if self.parallel_decodes > 1 and not random_start and self.choice.greedy:
            raise ValueError(
                f"--parallel-decodes {self.parallel_decodes} would give equal results from a "
                "masked start; use --decode-strategy refine --decode-start random, or --sampling"
            )
        if self.nbest > self.candidates:
            raise ValueError(
                f"--nbest {self.nbest} is more than the {self.candidates} candidates; raise "
                "--iter-decode-with-beam, --length-offset-beam or --parallel-decodes"
            )
        if self.rerank and self.candidates < 2:
            raise ValueError(
                "--iter-decode-with-external-reranker needs several candidates; add "
                "--iter-decode-with-beam 5, say"
            )
