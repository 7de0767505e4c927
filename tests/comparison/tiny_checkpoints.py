"""Checkpoints of every kind of model with random weights, as fairseq-train would save them."""

from pathlib import Path
from typing import Dict, List, Tuple

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

import fairseq_gmlm  # noqa: F401  (registers the plugin)

# Architecture -> task and arguments of its own.
KINDS: Dict[str, Tuple[str, List[str]]] = {
    "transformer": ("translation", []),
    "nonautoregressive_transformer": ("translation_lev", ["--noise", "full_mask"]),
    "iterative_nonautoregressive_transformer": (
        "translation_lev",
        ["--noise", "full_mask", "--train-step", "2", "--dae-ratio", "0.5"],
    ),
    "cmlm_transformer": ("translation_lev", ["--noise", "random_mask"]),
    "levenshtein_transformer": ("translation_lev", ["--early-exit", "1,1,1"]),
    "insertion_transformer": ("translation_lev", ["--noise", "random_delete"]),
    "gmlm_transformer": ("translation_gmlm", []),
}
_SIZES = [
    f"--{side}-{name}={value}"
    for side in ("encoder", "decoder")
    for name, value in [
        ("embed-dim", 16),
        ("ffn-embed-dim", 24),
        ("layers", 1),
        ("attention-heads", 2),
    ]
]
SHORTEST, LONGEST = 4, 9


def save_checkpoint_of(arch: str, data: Path, path: Path, seed: int = 0) -> Path:
    """Save a random model of an architecture for a data-bin.

    Lengths outside 4 to 9 are ruled out where the model has a table of them.
    """
    task_name, own = KINDS[arch]
    words = [str(data), "--task", task_name, "--arch", arch, "--optimizer", "adam", "--cpu", *own]
    words += [*_SIZES, "--share-all-embeddings", "--dropout=0", "--max-source-positions=64"]
    words += ["--max-target-positions=64", "--criterion"]
    words += ["gmlm_loss" if arch == "gmlm_transformer" else "label_smoothed_cross_entropy"]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(seed)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias") or "layer_norm" in name:
                value.add_(torch.randn_like(value) * 0.1)
        table = getattr(model.decoder, "embed_length", None)
        if table is not None:
            allowed = torch.randn_like(table.weight[SHORTEST : LONGEST + 1])
            table.weight[:] = allowed.mean(0)  # never above the best of those it is taken over
            table.weight[SHORTEST : LONGEST + 1] = allowed
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [
            {"num_updates": 70 + seed, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}
        ],
        "extra_state": {
            "previous_training_time": 120.0,
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
        },
        "task_state": {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
    return path
