"""What the tasks of this plugin share: a corrupted target in every step."""

from functools import cached_property
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.hardware import fast_bfloat16, warn_of_slow_bfloat16
from fairseq_gmlm.masking import Corruption, MaskPrior, Replacement, corrupt
from fairseq_gmlm.tasks.nonfinite import NonfiniteReports
from fairseq_gmlm.vocabulary import Vocabulary

TRAIN, VALID = 1, 2


def in_train_dtype(cfg: Any, criterion: Any) -> Callable[[Any, Dict[str, Any]], Any]:
    """The criterion, computed under autocast if ``--train-dtype`` asks for it.

    Around the criterion alone, as fairseq's own train_step switches autocast off on GPUs.
    """
    wanted = str(cfg.train_dtype)

    def compute(model: Any, sample: Dict[str, Any]) -> Any:
        device = sample["target"].device.type
        half = wanted == "bfloat16" or (wanted == "auto" and fast_bfloat16(device))
        if half:
            warn_of_slow_bfloat16("--train-dtype", device, "auto")
        with torch.autocast(device, dtype=torch.bfloat16 if half else None, enabled=half):
            return criterion(model, sample)

    return compute


class MaskedTask:
    """Mixed into a task before fairseq's own class.

    Attributes:
        name: as registered, for messages.
        vocabulary, prior, replacement: set by the task's constructor.
    """

    name: str
    vocabulary: Vocabulary
    prior: MaskPrior
    replacement: Replacement

    @cached_property
    def nonfinite(self) -> NonfiniteReports:
        """What has been said of batches whose loss is not finite."""
        return NonfiniteReports()

    def seed(self) -> int:
        """The run's seed; without fairseq's command line it is an unresolved reference."""
        return self.cfg.seed if isinstance(self.cfg.seed, int) else 1

    def pick(
        self, sample: Dict[str, Any], maskable: Tensor, real: Tensor, rng: CounterRNG
    ) -> Optional[Tensor]:
        """Positions to noise, bool (B, T), by another rule than the prior's; None: the prior's."""
        return None

    def corrupt(self, sample: Dict[str, Any], stage: int, number: int) -> Corruption:
        """Corrupt a batch; the noise depends on the seed, the update and each example's id.

        So it is the same in any micro-batch, on any number of processes, and after resuming. The
        noise of validation depends on the id alone: its losses compare between runs.

        Args:
            sample: with ``target`` int64 (B, T) and ``id`` int64 (B,).
            stage: ``TRAIN`` or ``VALID``.
            number: of the update.
        """
        target, vocabulary = sample["target"], self.vocabulary
        real = target.ne(vocabulary.pad)
        maskable = real & target.ne(vocabulary.bos) & target.ne(vocabulary.eos)
        seed = self.seed() if stage == TRAIN else 0
        rng = CounterRNG((stage, number, seed), sample["id"].to(target.device))
        return corrupt(
            target,
            maskable,
            real,
            self.prior,
            self.replacement,
            vocabulary.mask_ids.to(target.device),
            vocabulary.ordinary.to(target.device),
            rng,
            self.pick(sample, maskable, real, rng),
        )

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The criterion ``gmlm_loss``.

        Raises:
            ValueError: another criterion.
        """
        name = str(getattr(cfg, "_name", None) or getattr(cfg, "criterion", ""))
        if name != "gmlm_loss":
            raise ValueError(
                f"task {self.name} needs --criterion gmlm_loss, not {name}; "
                "add: --criterion gmlm_loss"
            )
        try:
            return super().build_criterion(cfg, from_checkpoint)
        except TypeError:  # the official 0.12.2 has no second argument
            return super().build_criterion(cfg)

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """One forward and backward pass over a corrupted batch; a loss that is no number is named."""
        sample["corruption"] = self.corrupt(sample, TRAIN, update_num)
        criterion = in_train_dtype(self.cfg, criterion)
        step = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        # A loss scaler repeats updates as a matter of course; a dummy batch comes more than once.
        once = not ignore_grad and getattr(optimizer, "scaler", None) is None
        self.nonfinite.check(step[0], sample, model, criterion, update_num, once)
        return step

    def valid_step(self, sample, model, criterion):
        """Loss under noise that is the same at every validation; BLEU if asked for."""
        sample["corruption"] = self.corrupt(sample, VALID, 0)
        criterion = in_train_dtype(self.cfg, criterion)
        step = super().valid_step(sample, model, criterion)
        self.nonfinite.check_validation(step[0], sample, model, criterion)
        return step
