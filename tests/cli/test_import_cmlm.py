"""fairseq's CMLM checkpoints through this plugin's generator: the same tokens."""

import re
import shutil
from pathlib import Path
from typing import Dict

import pytest
import torch
from toy_teacher import run_command

from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.models.stock import imported_checkpoint


@pytest.fixture(scope="module")
def stock(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ``cmlm_transformer`` that has learned a little."""
    folder = tmp_path_factory.mktemp("stock")
    sizes = [
        f"--{side}-{name}={value}"
        for side in ("encoder", "decoder")
        for name, value in [
            ("layers", 1), ("embed-dim", 32), ("ffn-embed-dim", 64), ("attention-heads", 2)
        ]
    ]  # fmt: skip
    done = run_command(
        *("fairseq_cli.train", toy_data, "--user-dir", "fairseq_gmlm", *sizes),
        *("--task", "translation_lev", "--arch", "cmlm_transformer", "--noise", "random_mask"),
        *("--criterion", "nat_loss", "--label-smoothing", 0.1, "--share-all-embeddings"),
        *("--optimizer", "adam", "--lr", 0.01, "--max-tokens", 400, "--max-epoch", 20, "--cpu"),
        *("--num-workers", 0, "--save-dir", folder, "--required-batch-size-multiple", 1),
        *("--no-epoch-checkpoints", "--validate-interval", 20, "--seed", 2),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "checkpoint_last.pt"


def texts(printed: str) -> Dict[int, str]:
    """Hypotheses by sentence number."""
    found = re.findall(r"^H-(\d+)\t[^\t]+\t(.*)$", printed, re.MULTILINE)
    return {int(number): text for number, text in found}


@pytest.mark.parametrize("max_iter", [0, 3, 9])
def test_same_tokens_as_stock_decoding(
    max_iter: int, stock: Path, toy_data: Path, tmp_path: Path
) -> None:
    imported = tmp_path / "imported.pt"
    done = run_command(
        *("fairseq_gmlm.cli.main", "import-cmlm", "--path", stock, "--data", toy_data),
        *("--output", imported),
    )
    assert done.returncode == 0, done.stderr
    shared = [
        *(toy_data, "--user-dir", "fairseq_gmlm", "--cpu", "--iter-decode-max-iter", max_iter),
        *("--iter-decode-force-max-iter", "--required-batch-size-multiple", 1),
    ]
    theirs = run_command("fairseq_cli.generate", *shared, "--task", "translation_lev",
                         "--path", stock)  # fmt: skip
    ours = run_command("fairseq_cli.generate", *shared, "--task", "translation_gmlm",
                       "--source-bos", "--path", imported)  # fmt: skip
    assert theirs.returncode == ours.returncode == 0, ours.stderr[-3000:]
    expected = texts(theirs.stdout)
    assert len(expected) == 20
    assert len(set(expected.values())) > 5  # it says something
    assert texts(ours.stdout) == expected


def test_refuses_other_models_and_other_data(
    stock: Path, toy_teacher: Path, toy_data: Path, tmp_path: Path
) -> None:
    command = ["fairseq_gmlm.cli.main", "import-cmlm", "--output", tmp_path / "x.pt"]
    done = run_command(*command, "--path", toy_teacher, "--data", toy_data)
    assert done.returncode == 2 and "expected a cmlm_transformer, found transformer" in done.stderr
    other = Path(shutil.copytree(toy_data, tmp_path / "other"))
    for language in ("en", "de"):
        with (other / f"dict.{language}.txt").open("a", encoding="utf-8") as stream:
            stream.write("more 1\n")
    done = run_command(*command, "--path", stock, "--data", other)
    assert done.returncode == 2 and "give the data-bin that the model was trained on" in done.stderr
    assert not (tmp_path / "x.pt").exists()


def test_copies_for_torchs_fast_path_are_left_out(stock: Path, toy_data: Path) -> None:
    """fairseq 0.12.2 keeps zeros of these names in every encoder layer."""
    state = load_checkpoint(stock)
    names = [f"{a}_{b}" for a in ("in_proj", "out_proj", "fc1", "fc2") for b in ("weight", "bias")]
    copies = {f"encoder.layers.0.{name}": torch.zeros(3) for name in names}
    plain = {k: v for k, v in state["model"].items() if k not in copies}
    wanted = imported_checkpoint({**state, "model": plain}, toy_data, "stock")["model"]
    found = imported_checkpoint({**state, "model": {**plain, **copies}}, toy_data, "stock")["model"]
    assert set(found) == set(wanted) and not set(copies) & set(found)
