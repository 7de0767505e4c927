"""A few sentences in two made-up languages, and how to prepare them."""

import random
from pathlib import Path
from typing import List


def write_text(folder: Path, train: int = 60) -> Path:
    """``train``, ``valid`` and ``test`` in two made-up languages, en and de."""
    rng = random.Random(5)
    for split, count in (("train", train), ("valid", 5), ("test", 8)):
        rows = [[f"w{rng.randrange(9)}" for _ in range(rng.randrange(2, 8))] for _ in range(count)]
        for language, letter in (("en", "w"), ("de", "v")):
            lines = [" ".join(words).replace("w", letter) + "\n" for words in rows]
            (folder / f"{split}.{language}").write_text("".join(lines), "utf-8")
    return folder


def preparing(raw: Path, destination: Path) -> List[str]:
    """Arguments of ``fairseq-gmlm prepare`` for such text."""
    prefixes = [x for n in ("train", "valid", "test") for x in (f"--{n}pref", str(raw / n))]
    return ["prepare", "-s", "en", "-t", "de", *prefixes, "--bpe-merges", "20",
            "--destdir", str(destination)]  # fmt: skip
