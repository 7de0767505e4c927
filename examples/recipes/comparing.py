"""The comparison of a recipe: rows that name systems become rows that name checkpoints."""

from pathlib import Path
from typing import Any, Dict

import yaml
from commands import Step, marker, ours
from recipe import Recipe, SystemRecipe
from steps import checkpoint, final_name, folder_name

from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.errors import UserError


def _seconds(system: SystemRecipe, name: str, output: Path) -> float:
    """Mean seconds of a system's trainings as their checkpoints tell them; 0 if none is done.

    Those count what a training went on from: an earlier run of itself, or another system.
    """
    found = []
    for seed in system.seeds:
        place = folder_name(name, system, seed)
        if marker(output / "logs", place).is_file():
            state = load_checkpoint(output / place / "checkpoint_last.pt", mmap=True)
            found.append(state["extra_state"]["previous_training_time"])
    return sum(found) / max(1, len(found))


def _training(name: str, system: SystemRecipe, output: Path) -> Dict[str, Any]:
    """What a row says about its training: stages, and seconds if it is done."""
    seconds = _seconds(system, name, output)
    stages = {"stages": system.options.get("num-train-stages", 1)}
    return {**stages, "seconds": round(seconds)} if seconds else stages


def comparison(
    recipe: Recipe, output: Path, split: str, trained_only: bool = False
) -> Dict[str, Any]:
    """Content of the comparison file of one split.

    Args:
        trained_only: leave out trainings that are not done, and rows of which none is.

    Raises:
        UserError: nothing is left.
    """
    known, logs = {**recipe.systems, "teacher": recipe.teacher}, output / "logs"
    rows = []
    for row in recipe.compare["systems"]:
        row = dict(row)
        name = row.pop("system")
        system = known[name]
        seeds = [
            seed
            for seed in system.seeds
            if not trained_only or marker(logs, final_name(name, system, seed)).is_file()
        ]
        if not seeds:
            continue
        paths = [str(checkpoint(name, system, seed, output)) for seed in seeds]
        row.update({"path": paths[0]} if len(paths) == 1 else {"paths": paths})
        row["training"] = _training(name, system, output)
        if "reranker" in row:
            chosen = known[row["reranker"]]
            row["reranker"] = str(checkpoint(row["reranker"], chosen, chosen.seeds[0], output))
        rows.append(row)
    if not rows:
        raise UserError(f"{output}: nothing is trained yet")
    plain = {k: v for k, v in recipe.compare.items() if k not in ("systems", "splits")}
    return {"data": str(output / "raw"), **plain, "split": split, "systems": rows}


def comparison_step(recipe: Recipe, output: Path, split: str, trained_only: bool = False) -> Step:
    """Writes the comparison file and gives the command that runs it."""
    config = output / f"compare-{split}.yaml"
    content = comparison(recipe, output, split, trained_only)
    config.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), "utf-8")
    stem = output / f"comparison-{split}"
    words = ours(
        *("compare", str(config), "--json", f"{stem}.json", "--csv", f"{stem}.csv"),
        *("--markdown", f"{stem}.md", "--outputs", str(output / f"translations-{split}")),
        *("--cache", str(output / "cells"), "--html", f"{stem}.html", "--latex", f"{stem}.tex"),
    )
    needs = [
        final_name(name, system, seed)
        for name, system in {**recipe.systems, "teacher": recipe.teacher}.items()
        for seed in system.seeds
    ]
    name = f"compare-{split}" + ("-trained" if trained_only else "")
    return Step(name, words, Path(f"{stem}.md"), 1, tuple(needs))
