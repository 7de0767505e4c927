"""Write tiny checkpoints of this version, which every later version must load and decode alike.

    python scripts/checkpoint_fixtures.py

It trains in a folder of its own with relative paths, so that no file names a machine, and writes
``tests/fixtures/checkpoints/VERSION``: checkpoints, dictionaries, templates and ``expected.json``.
What is there already is never written again: an old version's files cannot be made anew.
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from fairseq import options  # noqa: E402
from helpers import kept  # noqa: E402
from helpers.commands import call  # noqa: E402

from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint  # noqa: E402
from fairseq_gmlm.data.files import write_json  # noqa: E402
from fairseq_gmlm.version import __version__  # noqa: E402

NAMES = ["anna", "otto", "maria", "leander"]
COLOURS = {"cat": "black", "dog": "brown", "swan": "white", "parrot": "green"}
SIDES = [
    f"--{side}-{name}={value}"
    for side in ("encoder", "decoder")
    for name, value in (
        ("embed-dim", 8), ("ffn-embed-dim", 16), ("layers", 1), ("attention-heads", 2),
    )
]  # fmt: skip
TRANSLATION = [
    "data-bin", "-s", "a", "-t", "b", "--task", "translation_gmlm", "--arch", "gmlm_transformer",
    *SIDES, "--share-all-embeddings", "--max-source-positions", "16", "--max-target-positions", "16",
]  # fmt: skip
T5 = ["--arch", "gmlm_transformer_t5_small", "--head-dim", "4", "--length-predictor", "token"]
LANGUAGE = [
    "data-bin-lm", "--task", "language_modeling_gmlm", "--arch", "gmlm_lm", *SIDES[:4],
    "--tokens-per-sample", "16", "--max-positions", "16",
]  # fmt: skip
TRAINING = [
    "--criterion", "gmlm_loss", "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "2000",
    "--max-update", "300", "--num-workers", "0", "--data-buffer-size", "0", "--cpu", "--seed", "1",
    "--dropout", "0", "--disable-validation", "--no-epoch-checkpoints", "--log-format", "none",
]  # fmt: skip


def sentence(rng: random.Random) -> str:
    """A name sees an animal, or the other way round."""
    name, animal = rng.choice(NAMES), rng.choice(list(COLOURS))
    thing = f"a {COLOURS[animal]} {animal}"
    return f"{name} sees {thing} ." if rng.random() < 0.5 else f"{thing} sees {name} ."


def write_data() -> None:
    """Two data-bins below the working folder: a language, and its translation word by word."""
    rng = random.Random(1)
    for split, count in (("train", 600), ("valid", 20)):
        lines = [sentence(rng) for _ in range(count)]
        Path(f"{split}.a").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        turned = [" ".join(reversed(line.split())) for line in lines]
        Path(f"{split}.b").write_text("".join(f"{line}\n" for line in turned), "utf-8")
    files = ["--trainpref", "train", "--validpref", "valid"]
    call("preprocess", "-s", "a", "-t", "b", *files, "--destdir", "data-bin", "--joined-dictionary")
    files = ["--trainpref", "train.a", "--validpref", "valid.a"]
    call("preprocess", "--only-source", *files, "--destdir", "data-bin-lm")


def train(name: str, *arguments: str) -> Path:
    """``fairseq-train`` below the working folder; returns the checkpoint."""
    call("train", *arguments, *TRAINING, "--save-dir", name)
    return Path(name, "checkpoint_last.pt")


def with_namespace(path: Path, arguments: List[str]) -> Dict[str, Any]:
    """The checkpoint as fairseq 0.10 to 0.12.2 write it: options in ``args``, flat, and no ``cfg``."""
    state = load_checkpoint(path)
    parser = options.get_training_parser()
    del state["cfg"]
    state["args"] = options.parse_args_and_arch(parser, arguments)
    return state


def refuse_machine_paths(path: Path) -> None:
    """Stop where a file names the folder it was made in, or this checkout.

    Raises:
        SystemExit: naming the file.
    """
    content = path.read_bytes()
    for place in (os.getcwd(), str(ROOT), str(Path.home())):
        if place.encode() in content:
            raise SystemExit(f"{path.name} holds the path {place}: pass relative paths to fairseq")


def make(out: Path) -> None:
    """Train in the working folder, and write everything to ``out``."""
    write_data()
    bare = ["--no-save-optimizer-state"]
    whole: List[Tuple[str, Path]] = [
        ("gmlm_transformer.pt", train("plain", *TRANSLATION)),
        ("gmlm_transformer_t5.pt", train("t5", *TRANSLATION, *T5, *bare)),
        ("gmlm_lm.pt", train("lm", *LANGUAGE, *bare)),
    ]
    for name, path in whole:
        shutil.copyfile(path, out / name)
    old = with_namespace(whole[0][1], [*TRANSLATION, *TRAINING, "--save-dir", "plain"])
    old["last_optimizer_state"] = None
    save_checkpoint(old, out / "gmlm_transformer_args.pt")
    for name in ("dict.a.txt", "dict.b.txt"):
        shutil.copyfile(Path("data-bin", name), out / name)
    shutil.copyfile(Path("data-bin-lm", "dict.txt"), out / "dict.txt")
    (out / "templates.txt").write_text("".join(f"{t}\n" for t in kept.TEMPLATES), "utf-8")
    paths = sorted(out.glob("*.pt"))
    for path in paths:
        refuse_machine_paths(path)
    write_json(out / "expected.json", {path.name: kept.answers(path) for path in paths})


def main() -> None:
    """Make the fixtures of this version.

    Raises:
        SystemExit: they are there already.
    """
    final = kept.FOLDER / __version__
    if final.exists():
        raise SystemExit(f"{final} is there: files that were kept are never made anew")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        out = Path(folder, "out")
        out.mkdir()
        make(out)
        final.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(out, final)
        os.chdir(ROOT)
    for path in sorted(final.iterdir()):
        print(f"{path.stat().st_size:8} {path.name}")


if __name__ == "__main__":
    main()
