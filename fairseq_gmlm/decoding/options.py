"""All that a generator needs to know: the task's options and fairseq's own, checked together."""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq_gmlm.compat import option
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.config import DecodingConfig
from fairseq_gmlm.decoding.rejecters import build_rejecter


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
    prune_to: int
    prune_after: int
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
    def survivors(self) -> int:
        """Chains per sentence that are run to their end."""
        return self.prune_to or self.candidates

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
            "prune_to", "prune_after", "attention_pass", "decode_order", "decode_order_file", "positions_per_pass",
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
        self._check_pruning()
        if self.nbest > self.survivors:
            more = "--iter-decode-with-beam, --length-offset-beam or --parallel-decodes"
            raise ValueError(
                f"--nbest {self.nbest} is more than the {self.survivors} candidates; raise "
                + ("--prune-to" if self.survivors < self.candidates else more)
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
        if self.rerank and self.survivors < 2:
            raise ValueError(
                "--iter-decode-with-external-reranker needs several candidates; add "
                "--iter-decode-with-beam 5, say, and no --prune-to 1"
            )

    def _check_pruning(self) -> None:
        if not 0 <= self.prune_to <= self.candidates:
            raise ValueError(
                f"--prune-to must be between 0 and the {self.candidates} candidates of a sentence, "
                f"not {self.prune_to}"
            )
        if self.prune_after < 1:
            raise ValueError(f"--prune-after must be at least 1, not {self.prune_after}")

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
