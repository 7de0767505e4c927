"""Checkpoints that earlier versions wrote, and what they answer."""

import contextlib
import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List

import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import GenerationConfig

from fairseq_gmlm.cli.main import main

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "checkpoints"
SOURCES = ["anna sees a black cat .", "a white swan sees otto .", "maria sees a brown dog ."]
TEMPLATES = [
    "anna sees a ___{1} cat .",
    "___{1} sees a white swan .",
    "a brown ___{1,2} sees otto .",
]
DECODING = {"iter_decode_max_iter": 3, "iter_decode_with_beam": 2}
Answers = List[Dict[str, Any]]


def translations(checkpoint: Path) -> Answers:
    """Source, text and score of each sentence; dictionaries lie beside the checkpoint."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(checkpoint.parent)}
    )
    defaults = {name: f.default for name, f in GenerationConfig.__dataclass_fields__.items()}
    models[0].eval()
    generator = task.build_generator(models, Namespace(**{**defaults, **DECODING}))
    lines = [
        task.source_dictionary.encode_line(source, add_if_not_exist=False).long()
        for source in SOURCES
    ]
    tokens = collate_tokens(lines, task.source_dictionary.pad(), left_pad=True)
    lengths = torch.tensor([len(line) for line in lines])
    batch = {
        "id": torch.arange(len(lines)),
        "nsentences": len(lines),
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
    }
    with torch.no_grad():
        found = [each[0] for each in task.inference_step(generator, models, batch)]
    symbols = {task.source_dictionary.bos(), task.source_dictionary.eos()}
    return [
        {
            "source": source,
            "text": task.target_dictionary.string(hypothesis["tokens"], extra_symbols_to_ignore=symbols),
            "score": round(float(hypothesis["score"]), 4),
        }
        for source, hypothesis in zip(SOURCES, found)
    ]  # fmt: skip


def fillings(checkpoint: Path) -> Answers:
    """Template, two texts and scores of each; by the command ``fill``."""
    templates = checkpoint.parent / "templates.txt"
    words = ["fill", "--path", checkpoint, "--data", checkpoint.parent, "--cpu", "--nbest", 2]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([*map(str, words), "--input", str(templates)])
    assert status == 0
    rows = [line.split("\t") for line in out.getvalue().splitlines()]
    return [
        {"source": TEMPLATES[int(number) - 1], "text": text, "score": float(score)}
        for number, _, score, text in rows
    ]


def answers(checkpoint: Path) -> Answers:
    """What a kept checkpoint says, whichever kind it is."""
    return fillings(checkpoint) if checkpoint.stem == "gmlm_lm" else translations(checkpoint)


def expected(folder: Path) -> Dict[str, Answers]:
    """Answers by file name, as the version that wrote the files gave them."""
    return json.loads((folder / "expected.json").read_text("utf-8"))
