"""A toy language with rules, its data-bin, and a small model of it, made once for all tests."""

import atexit
import contextlib
import functools
import io
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.subwords import Segmenter, learn_codes

NAMES = ["anna", "otto", "maria", "leander"]
COLOURS = {"cat": "black", "dog": "brown", "swan": "white", "parrot": "colourful"}
MODEL = [
    "--arch", "gmlm_lm", "--encoder-embed-dim", 48, "--encoder-ffn-embed-dim", 96,
    "--encoder-layers", 2, "--encoder-attention-heads", 4, "--encoder-normalize-before",
    "--max-positions", 32, "--dropout", 0.0, "--attention-dropout", 0.0,
]  # fmt: skip


def sentence(rng):
    """``anna sees a black cat .`` or ``a black cat sees anna .``; colours follow animals."""
    name, animal = rng.choice(NAMES), rng.choice(list(COLOURS))
    thing = f"a {COLOURS[animal]} {animal}"
    return f"{name} sees {thing} ." if rng.random() < 0.5 else f"{thing} sees {name} ."


@functools.cache
def folder():
    """A folder that goes when the tests have ended."""
    path = Path(tempfile.mkdtemp(prefix="gmlm-lm-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def codes():
    """Byte-pair codes under which long words are several pieces."""
    words = [*NAMES, *COLOURS, *COLOURS.values(), "a", "sees", "."]
    learn_codes(Counter(dict.fromkeys(words, 5)), 46, folder() / "codes")
    return folder() / "codes"


@functools.cache
def data_bin():
    """train, valid and test of the language, segmented."""
    from helpers.commands import call

    rng, cut = random.Random(1), Segmenter(codes())
    arguments = []
    for split, count in (("train", 600), ("valid", 60), ("test", 40)):
        lines = [sentence(rng) for _ in range(count)]
        (folder() / f"{split}.raw").write_text("".join(f"{line}\n" for line in lines))
        text = "".join(" ".join(cut(line.split())) + "\n" for line in lines)
        (folder() / split).write_text(text)
        arguments += [f"--{split}pref", folder() / split]
    call("preprocess", "--only-source", *arguments, "--destdir", folder() / "bin")
    return folder() / "bin"


def train(save_dir, *arguments, updates=450):
    """``fairseq-train`` in this process; returns the folder of checkpoints."""
    from helpers.commands import call

    call(
        "train", data_bin(), "--task", "language_modeling_gmlm", "--criterion", "gmlm_loss",
        "--loss-normalization", "per-sentence", "--tokens-per-sample", 32, *MODEL,
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", 0.005, "--warmup-updates", 20,
        "--lr-scheduler", "inverse_sqrt", "--max-tokens", 1024, "--max-update", updates,
        "--save-dir", save_dir, "--no-epoch-checkpoints", "--save-interval", 20, "--validate-interval", 20, "--cpu", "--num-workers", 0,
        "--log-format", "none", "--seed", 3, *arguments,
    )  # fmt: skip
    return Path(save_dir)


@functools.cache
def checkpoint():
    """A model that knows the language."""
    return train(folder() / "run") / "checkpoint_last.pt"


def command(*arguments, stdin=""):
    """``fairseq-gmlm`` in this process: exit status, output, messages."""
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "surrogateescape")), "utf-8")
    before = sys.stdin
    sys.stdin = given
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return code, out.getvalue(), err.getvalue()


def on_model(name, *arguments, stdin=""):
    """A command on the model, with its subwords."""
    return command(
        name, "--path", checkpoint(), "--data", data_bin(), "--cpu", "--bpe", "subword_nmt",
        "--bpe-codes", codes(), *arguments, stdin=stdin,
    )  # fmt: skip


def process(*arguments):
    """A command in a process of its own, as a user starts it."""
    line = [sys.executable, "-m", "fairseq_gmlm.cli.main", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)
