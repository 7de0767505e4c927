"""A tiny data-bin and checkpoints for it; random weights do for tests of faults."""

import random
from pathlib import Path
from typing import Dict

import pytest
from comparison.tiny_checkpoints import save_checkpoint_of

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint

ARCHITECTURES = ("transformer", "gmlm_transformer", "cmlm_transformer")


def write_text(folder: Path, train: int = 60) -> Path:
    """``train``, ``valid`` and ``test`` in two made-up languages, en and de."""
    rng = random.Random(5)
    for split, count in (("train", train), ("valid", 5), ("test", 8)):
        rows = [[f"w{rng.randrange(9)}" for _ in range(rng.randrange(2, 8))] for _ in range(count)]
        for language, letter in (("en", "w"), ("de", "v")):
            lines = [" ".join(words).replace("w", letter) + "\n" for words in rows]
            (folder / f"{split}.{language}").write_text("".join(lines), "utf-8")
    return folder


def preparing(raw: Path, destination: Path) -> list:
    """Arguments of ``fairseq-gmlm prepare`` for such text."""
    prefixes = [x for n in ("train", "valid", "test") for x in (f"--{n}pref", str(raw / n))]
    return ["prepare", "-s", "en", "-t", "de", *prefixes, "--bpe-merges", "20",
            "--destdir", str(destination)]  # fmt: skip


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data-bin of ``prepare`` with 60 train, 5 valid and 8 test pairs."""
    raw = write_text(tmp_path_factory.mktemp("small"))
    assert main(preparing(raw, raw / "bin")) == 0
    return raw / "bin"


@pytest.fixture(scope="session")
def small(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """Checkpoint by architecture."""
    folder = tmp_path_factory.mktemp("small-checkpoints")
    found = {}
    for arch in ARCHITECTURES:
        found[arch] = save_checkpoint_of(arch, small_data, folder / f"{arch}.pt")
        state = load_checkpoint(found[arch])
        state["cfg"]["task"].update(source_lang="en", target_lang="de")  # as training leaves them
        save_checkpoint(state, found[arch])
    return found
