"""A small data-bin and a checkpoint of every kind of model for it."""

import random
from pathlib import Path
from typing import Dict

import pytest
from tiny_checkpoints import KINDS, save_checkpoint_of

from fairseq_gmlm.cli.main import main

SENTENCES = 11


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data-bin of ``prepare``, languages en and de, with eleven test sentences."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = random.Random(5)
    for split, count in (("train", 60), ("valid", 5), ("test", SENTENCES)):
        pairs = [[f"w{rng.randrange(9)}" for _ in range(rng.randrange(2, 8))] for _ in range(count)]
        for language, letter in (("en", "w"), ("de", "v")):
            lines = [" ".join(word.replace("w", letter) for word in pair) for pair in pairs]
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    prefixes = [x for n in ("train", "valid", "test") for x in (f"--{n}pref", str(folder / n))]
    words = ["prepare", "-s", "en", "-t", "de", *prefixes, "--bpe-merges", "20"]
    assert main([*words, "--destdir", str(folder / "bin")]) == 0
    return folder / "bin"


@pytest.fixture(scope="session")
def tiny(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """Checkpoint by architecture."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {arch: save_checkpoint_of(arch, tiny_data, folder / f"{arch}.pt") for arch in KINDS}
