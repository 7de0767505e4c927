"""Masked cross-entropy over all training stages, with length and rejecter losses."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor

from fairseq_gmlm.compat import metrics
from fairseq_gmlm.decoding.rejecters import build_rejecter
from fairseq_gmlm.decoding.remasking import REMASKING, Remasking
from fairseq_gmlm.masking import LOSS_WEIGHTS, loss_weights
from fairseq_gmlm.models.unrolling import Unrolled, Unrolling

NORMALIZATIONS = ("tokens", "sentences", "per-sentence")


@dataclass
class GMLMLossConfig(FairseqDataclass):
    """Options of ``gmlm_loss``."""

    label_smoothing: float = field(
        default=0.0, metadata={"help": "share of the target mass spread over the vocabulary"}
    )
    num_train_stages: int = field(
        default=1,
        metadata={"help": "decoder passes per update; the model's own argmax feeds the next one"},
    )
    stage_remasking: ChoiceEnum(["none", *REMASKING]) = field(
        default="none",
        metadata={
            "help": "between training stages, take back what the task's --rejecter and "
            "--remask-stutter reject (schedules count --num-train-stages passes) and put this in "
            "its place; none: the whole prediction goes on"
        },
    )
    loss_weights: ChoiceEnum(list(LOSS_WEIGHTS)) = field(
        default="masked",
        metadata={
            "help": "tokens that count in the first stage: masked ones, noised ones (also those "
            "kept or random), or all; later stages count all"
        },
    )
    loss_normalization: ChoiceEnum(list(NORMALIZATIONS)) = field(
        default="tokens",
        metadata={
            "help": "tokens: mean over weighted tokens; sentences: sum per sentence, mean over "
            "sentences; per-sentence: mean within each sentence, then over sentences (u-PMLM)"
        },
    )
    z_loss: float = field(default=0.0, metadata={"help": "weight of log(Z)^2 of the softmax"})
    length_loss_weight: float = field(
        default=1.0,
        metadata={"help": "weight of the length loss; 1: a sentence's length counts as one token"},
    )
    length_label_smoothing: float = field(
        default=0.0,
        metadata={
            "help": "label smoothing of the length head (PaDIR smooths it like the words, over "
            "far fewer classes)"
        },
    )
    rejecter_loss_weight: float = field(
        default=1.0, metadata={"help": "weight of the learned rejecter's loss"}
    )


@register_criterion("gmlm_loss", dataclass=GMLMLossConfig)
class GMLMLoss(FairseqCriterion):
    """Sums over weighted tokens with their count as ``sample_size``.

    So one token counts the same whatever the micro-batch, the number of processes and
    ``--update-freq``. ``loss`` is over all stages, in validation too; ``word_nll`` (first stage),
    ``word_nll_2``, ... and the accuracies compare between runs with other numbers of stages.
    """

    def __init__(self, cfg: GMLMLossConfig, task: Any) -> None:
        super().__init__(task)
        if cfg.num_train_stages < 1:
            raise ValueError(f"--num-train-stages must be at least 1, not {cfg.num_train_stages}")
        for name in ("label_smoothing", "length_label_smoothing"):
            value = getattr(cfg, name)
            if not 0.0 <= value < 1.0:
                option = "--" + name.replace("_", "-")
                raise ValueError(f"{option} must be in [0, 1), not {value}")
        if not hasattr(task, "corrupt"):
            raise ValueError(
                f"gmlm_loss cannot be used with task {type(task).__name__}; "
                "add: --task translation_gmlm, or language_modeling_gmlm"
            )
        self.cfg = cfg
        self.remasking = stage_remasking(cfg, task)

    def plan(self, sample: Dict[str, Any]) -> Tuple[Unrolling, Tensor]:
        """What the model shall compute, and the denominator of the loss (scalar tensor)."""
        cfg, target, corruption = self.cfg, sample["target"], sample["corruption"]
        vocabulary = self.task.vocabulary
        free = target.ne(vocabulary.pad) & target.ne(vocabulary.bos) & target.ne(vocabulary.eos)
        first = loss_weights(str(cfg.loss_weights), corruption, free).float()
        later = free.float()
        stages = cfg.num_train_stages
        if str(cfg.loss_normalization) == "per-sentence":
            first, later = (w / w.sum(1, keepdim=True).clamp(min=1) for w in (first, later))
        if str(cfg.loss_normalization) == "tokens":
            size = first.sum() + (stages - 1) * later.sum()
        else:
            size = first.new_tensor(float(target.size(0)))
        plan = Unrolling(
            target=target,
            weights=first,
            later_weights=later,
            free=free,
            stages=stages,
            label_smoothing=cfg.label_smoothing,
            length_smoothing=cfg.length_label_smoothing,
            z_loss=cfg.z_loss,
            remasking=self.remasking,
        )
        return plan, size

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True):
        """Loss of a batch that the task has corrupted.

        Returns:
            loss (scalar, summed), sample size, logging output.
        """
        plan, size = self.plan(sample)
        net_input = sample["net_input"]
        out: Unrolled = model(
            net_input["src_tokens"],
            net_input["src_lengths"],
            sample["corruption"].tokens,
            plan=plan,
        )
        words = sum(stage.loss for stage in out.stages)
        loss = words
        if out.length is not None:  # language models predict no length
            loss = loss + self.cfg.length_loss_weight * out.length.loss
        if out.rejecter:
            loss = loss + self.cfg.rejecter_loss_weight * sum(r.loss for r in out.rejecter)
        # A batch in which nothing is masked has loss 0 and size 0; fairseq divides by the total.
        logs: Dict[str, Any] = {
            "loss": loss.detach(),
            "word_loss": words.detach(),
            "nll_loss": sum(stage.nll for stage in out.stages),
            "masked": sample["corruption"].masked.sum(),
            "maskable": plan.free.sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": size,
        }
        if out.length is not None:
            # Reported in bits, unless it is a squared error, which has no such unit.
            unit = math.log(2) if out.length.squared else 1.0
            logs["length_loss"] = out.length.loss.detach() * unit
            logs["length_correct"] = out.length.correct
        for i, (stage, count) in enumerate(zip(out.stages, out.counts), 1):
            logs[f"nll_{i}"], logs[f"correct_{i}"] = stage.nll, stage.correct
            logs[f"count_{i}"] = count
            logs[f"weight_{i}"] = (plan.weights if i == 1 else plan.later_weights).sum()
        for i, stage in enumerate(out.rejecter, 1):
            logs[f"rejecter_loss_{i}"] = stage.nll
            logs[f"rejecter_correct_{i}"] = stage.correct
        return loss, size, logs

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate over batches and processes."""

        def total(key: str) -> float:
            return float(utils.item(sum(log.get(key, 0) for log in logging_outputs)))

        size, sentences = total("sample_size"), total("nsentences")
        bits = 1 / math.log(2)
        denominator = size or 1.0  # nothing masked at all: the length loss alone, not 1e8 times it
        metrics.log_scalar("loss", total("loss") / denominator * bits, size, round=3)
        metrics.log_scalar("nll_loss", total("nll_loss") / denominator * bits, size, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        if sentences and any("length_loss" in log for log in logging_outputs):
            metrics.log_scalar(
                "length_loss", total("length_loss") / sentences * bits, sentences, round=3
            )
            metrics.log_scalar(
                "length_accuracy", total("length_correct") / sentences, sentences, round=3
            )
        maskable = total("maskable")
        if maskable:
            metrics.log_scalar("masked_share", total("masked") / maskable, maskable, round=3)
        stage = 1
        while any(f"count_{stage}" in log for log in logging_outputs):
            count = total(f"count_{stage}")
            if count:
                suffix = "" if stage == 1 else f"_{stage}"
                metrics.log_scalar(
                    f"accuracy{suffix}", total(f"correct_{stage}") / count, count, round=3
                )
                metrics.log_scalar(
                    f"word_nll{suffix}",
                    total(f"nll_{stage}") / max(total(f"weight_{stage}"), 1e-8) * bits,
                    count,
                    round=3,
                )
            stage += 1
        stage = 1
        while maskable and any(f"rejecter_loss_{stage}" in log for log in logging_outputs):
            suffix = "" if stage == 1 else f"_{stage}"
            for name in ("loss", "correct"):
                metrics.log_scalar(
                    f"rejecter_{name}{suffix}",
                    total(f"rejecter_{name}_{stage}") / maskable,
                    maskable,
                    round=3,
                )
            stage += 1

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Every entry is a sum over the batch."""
        return True


def stage_remasking(cfg: GMLMLossConfig, task: Any) -> Optional[Remasking]:
    """What happens between stages, from the criterion's and the task's options.

    Raises:
        ValueError: ``--stage-remasking`` without a second stage, or without anything to reject.
    """
    if str(cfg.stage_remasking) == "none":
        return None
    if cfg.num_train_stages < 2:
        raise ValueError(
            f"--stage-remasking {cfg.stage_remasking} needs --num-train-stages 2 or more"
        )
    if not hasattr(task.cfg, "rejecter"):
        raise ValueError(
            f"--stage-remasking is for --task translation_gmlm, not {type(task).__name__}; drop it"
        )
    if str(task.cfg.rejecter) == "passthrough" and not task.cfg.remask_stutter:
        raise ValueError(
            f"--stage-remasking {cfg.stage_remasking} has nothing to replace; add --rejecter (other "
            "than passthrough) or --remask-stutter"
        )
    return Remasking(build_rejecter(task.cfg), str(cfg.stage_remasking), task.cfg.remask_stutter)
