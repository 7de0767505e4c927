"""The systems that are compared: how each is trained, by fairseq's own commands."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Tuple

PLUGIN = Path(__file__).resolve().parents[2] / "fairseq_gmlm"
LONGEST = 64  # tokens of a sentence with BOS and EOS


class Size(NamedTuple):
    """How large the experiment is.

    Attributes:
        width, layers, heads, ffn: of all models.
        merges: of the joint byte-pair encoding.
        updates, autoregressive_updates, batch: updates of ``batch`` tokens for each masked model,
            and for the autoregressive one, whose updates take twice as long.
        train: most training sentences (0: all); held_out: validation, and as many test sentences.
        scored: test sentences that are scored; orders: random orders of each.
        tuned: labelled sentences for fine-tuning; tuning_updates: updates of 32 sentences.
        tuning_rates: learning rates that are tried; validation chooses one for each start.
    """

    width: int
    layers: int
    heads: int
    ffn: int
    merges: int
    updates: int
    autoregressive_updates: int
    batch: int
    train: int
    held_out: int
    scored: int
    orders: int
    tuned: int
    tuning_updates: int
    tuning_rates: Tuple[float, ...]


SIZES: Dict[str, Size] = {
    "smoke": Size(32, 1, 2, 64, 300, 30, 30, 1024, 1500, 60, 12, 2, 200, 12, (0.0005,)),
    "full": Size(
        128, 4, 4, 512, 4000, 6000, 4000, 1024, 0, 1000, 400, 3, 3000, 280, (0.0001, 0.0005)
    ),
}

MASKED = {
    "u-PMLM": ["--mask-prior", "uniform", "--loss-normalization", "per-sentence"],
    "fixed 15 %": ["--mask-prior", "fixed", "--mask-ratio", "0.15", "--keep-prob", "0.1",
                   "--random-prob", "0.1", "--loss-weights", "noised"],
}  # fmt: skip
AUTOREGRESSIVE = "autoregressive"
SYSTEMS = (*MASKED, AUTOREGRESSIVE)


def folder_name(system: str, seed: int) -> str:
    """Name of the folder of a system's checkpoints."""
    return system.replace(" %", "").replace(" ", "-") + f"-{seed}"


def _shared(size: Size, updates: int, seed: int, save: Path) -> List[str]:
    return [
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--weight-decay", "0.01",
        "--clip-norm", "1.0", "--lr", "0.0015", "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", str(max(10, updates // 10)), "--total-num-update", str(updates),
        "--max-update", str(updates), "--max-tokens", str(size.batch), "--seed", str(seed),
        "--save-dir", str(save), "--no-epoch-checkpoints", "--save-interval-updates", "500",
        "--keep-interval-updates", "1", "--validate-interval", "1000", "--validate-interval-updates", "500",
        "--log-format", "simple", "--log-interval", "50", "--num-workers", "0",
        "--data-buffer-size", "0", "--cpu",
    ]  # fmt: skip


def language_model_command(system: str, size: Size, seed: int, data: Path, save: Path) -> List[str]:
    """Arguments of ``fairseq-train`` for one of :data:`SYSTEMS`."""
    if system == AUTOREGRESSIVE:
        return [
            str(data), "--task", "language_modeling", "--arch", "transformer_lm",
            "--criterion", "cross_entropy",
            # Blocks of one token and whole lines: one line a sample, as for the others. (The mode
            # for that, eos, fails in fairseq under numpy 2.)
            "--sample-break-mode", "complete", "--tokens-per-sample", "1",
            "--max-target-positions", str(LONGEST), "--skip-invalid-size-inputs-valid-test", "--decoder-learned-pos",
            "--decoder-embed-dim", str(size.width), "--decoder-ffn-embed-dim", str(size.ffn),
            "--decoder-layers", str(size.layers), "--decoder-attention-heads", str(size.heads),
            "--share-decoder-input-output-embed", "--activation-fn", "gelu", "--dropout", "0.1",
            *_shared(size, size.autoregressive_updates, seed, save),
        ]  # fmt: skip
    return [
        str(data), "--user-dir", str(PLUGIN), "--task", "language_modeling_gmlm",
        "--criterion", "gmlm_loss", "--tokens-per-sample", str(LONGEST), *MASKED[system],
        *model_options(size), *_shared(size, size.updates, seed, save),
    ]  # fmt: skip


def model_options(size: Size) -> List[str]:
    """The masked model, of the size of the others."""
    return [
        "--arch", "gmlm_lm_tiny", "--positions", "relative", "--max-positions", str(LONGEST),
        "--encoder-embed-dim", str(size.width), "--encoder-ffn-embed-dim", str(size.ffn),
        "--encoder-layers", str(size.layers), "--encoder-attention-heads", str(size.heads),
        "--dropout", "0.1",
    ]  # fmt: skip


def fairseq_train(arguments: Sequence[str], save: Path) -> float:
    """Train, or go on with a run that was interrupted; returns seconds, 0 if it was done before.

    Raises:
        RuntimeError: the training failed; its log is in the folder.
    """
    done = save / "done"
    if done.is_file():
        return 0.0
    save.mkdir(parents=True, exist_ok=True)
    begin = time.time()
    with (save / "log").open("a", encoding="utf-8") as log:
        code = subprocess.run(
            [sys.executable, "-m", "fairseq_cli.train", *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
        ).returncode
    if code or not (save / "checkpoint_last.pt").is_file():
        raise RuntimeError(f"training ended with {code}; see {save / 'log'}")
    done.touch()
    return time.time() - begin
