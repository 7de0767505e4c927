"""Helpers of the command-line tests: a made-up language pair, and commands in processes."""

import random
import subprocess
from pathlib import Path
from typing import List, Tuple

from helpers.commands import start_module

ROOT = Path(__file__).resolve().parents[2]


def toy_pairs(count: int, seed: int) -> List[Tuple[str, str]]:
    """Sentences of five words in two made-up languages, the second one backwards."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [f"w{rng.randrange(12)}" for _ in range(rng.randrange(1, 9))]
        pairs.append((" ".join(words), " ".join(f"v{word[1:]}" for word in reversed(words))))
    return pairs


def write_pairs(prefix: Path, pairs: List[Tuple[str, str]]) -> None:
    """Write ``PREFIX.en`` and ``PREFIX.de``."""
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{language}").write_bytes(text.encode("utf-8"))


def run_command(*arguments: object, timeout: float = 400) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m ...`` in a process of its own."""
    done = start_module(*map(str, arguments), timeout=timeout)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)
