"""What a checkpoint says of itself: size, updates, training time, stages."""

from pathlib import Path
from typing import Any, Dict, Optional

from fairseq_gmlm.data.checkpoints import field, load_checkpoint, section


def weight_bytes(state: Dict[str, Any]) -> int:
    """Bytes of the weights; tensors that share memory count once."""
    shared = {}
    for value in state["model"].values():
        shared[(value.data_ptr(), value.numel(), value.dtype)] = (
            value.numel() * value.element_size()
        )
    return sum(shared.values())


def _stages(state: Dict[str, Any]) -> Optional[int]:
    """Decoder runs an update: the stages of this plugin's criterion, one for other models."""
    criterion = section(state, "criterion")
    name = field(criterion, "_name") or field(criterion, "criterion")
    if name is None:
        return None
    return int(field(criterion, "num_train_stages", 1))


def checkpoint_facts(path: Path) -> Dict[str, Optional[float]]:
    """``bytes`` of the weights, ``updates``, ``seconds`` of training and ``stages``.

    Seconds are fairseq's own count, over restarts; a start from another checkpoint is not in it.
    What the file does not say is None.

    Raises:
        UserError: see :func:`load_checkpoint`.
    """
    state = load_checkpoint(path, mmap=True)
    history = state.get("optimizer_history") or [{}]
    seconds = (state.get("extra_state") or {}).get("previous_training_time")
    return {
        "bytes": weight_bytes(state),
        "updates": history[-1].get("num_updates"),
        "seconds": None if seconds is None else float(seconds),
        "stages": _stages(state),
    }
