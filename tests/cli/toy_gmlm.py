"""A GMLM on the toy pair, hardly trained: enough for commands that only have to run it."""

from pathlib import Path

from toy_teacher import run_command


def train_gmlm(data: Path, folder: Path, *more: object) -> Path:
    """Train a model of width 32 for a few updates; returns its checkpoint."""
    sizes = [
        f"--{side}-{name}={value}"
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", 1), ("embed-dim", 32), ("ffn-embed-dim", 64), ("attention-heads", 2),
        )
    ]  # fmt: skip
    done = run_command(
        *("fairseq_cli.train", data, "--user-dir", "fairseq_gmlm", "--task", "translation_gmlm"),
        *("--arch", "gmlm_transformer", "--criterion", "gmlm_loss", *sizes),
        *("--share-all-embeddings", "--optimizer", "adam", "--lr", 0.005, "--max-tokens", 400),
        *("--max-update", 40, "--num-workers", 0, "--data-buffer-size", 0, "--cpu"),
        *("--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder, *more),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "checkpoint_last.pt"
