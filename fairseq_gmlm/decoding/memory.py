"""Memory that was freed, given back to the system while a long decoding goes on."""

import ctypes
import functools
import time
from typing import Any, Optional

import torch

SECONDS = 10.0


@functools.cache
def _malloc_trim() -> Optional[Any]:
    """glibc's function; None where the C library is another."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


class Trimmer:
    """Calls ``malloc_trim`` from time to time.

    Batches of ever other lengths leave holes of ever other sizes in the heap, which glibc keeps
    for itself: ``fairseq-interactive`` grew by a MiB a line. A call takes milliseconds.

    Args:
        seconds: from one call to the next, at least.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.last = time.monotonic()

    def after_batch(self, device: torch.device) -> bool:
        """Give memory back if it is time to; returns whether it was done.

        Args:
            device: of the batch; on a GPU torch keeps its own memory.
        """
        trim = _malloc_trim()
        if device.type != "cpu" or trim is None:
            return False
        if time.monotonic() - self.last < self.seconds:
            return False
        trim(0)
        self.last = time.monotonic()
        return True
