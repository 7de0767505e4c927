"""A tiny data-bin and checkpoints for it; random weights do for tests of faults."""

from pathlib import Path
from typing import Dict

import pytest
from comparison.tiny_checkpoints import save_checkpoint_of
from helpers.small import preparing, write_text

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint

ARCHITECTURES = ("transformer", "gmlm_transformer", "cmlm_transformer")


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
