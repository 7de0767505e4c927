"""Training in bfloat16 without fairseq's own --bf16, which ends in an error on a CPU."""

from typing import Any, Callable, Dict

import torch


def in_train_dtype(cfg: Any, criterion: Any) -> Callable[[Any, Dict[str, Any]], Any]:
    """The criterion, computed under autocast if ``--train-dtype`` asks for it.

    Around the criterion alone, as fairseq's own train_step switches autocast off on GPUs.
    """
    dtype = torch.bfloat16 if str(cfg.train_dtype) == "bfloat16" else None

    def compute(model: Any, sample: Dict[str, Any]) -> Any:
        device = sample["target"].device.type
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            return criterion(model, sample)

    return compute
