"""The comparison of a recipe: rows that name systems become rows that name checkpoints."""

import json
from pathlib import Path
from typing import Any, Dict

import yaml
from commands import Step, ours
from recipe import Recipe, SystemRecipe
from steps import checkpoint, final_name, folder_name


def _training(name: str, system: SystemRecipe, logs: Path) -> Dict[str, Any]:
    """Seconds and stages of a system's trainings, as far as their markers tell."""
    stages = system.options.get("num-train-stages", 1)
    seconds = []
    for seed in system.seeds:
        marker = logs / f"{folder_name(name, system, seed)}.done.json"
        if marker.is_file():
            seconds.append(json.loads(marker.read_text("utf-8"))["seconds"])
    if not seconds:
        return {"stages": stages}
    return {"stages": stages, "seconds": round(sum(seconds) / len(seconds))}


def comparison(recipe: Recipe, output: Path, split: str) -> Dict[str, Any]:
    """Content of the comparison file of one split."""
    known = {**recipe.systems, "teacher": recipe.teacher}
    rows = []
    for row in recipe.compare["systems"]:
        row = dict(row)
        name = row.pop("system")
        system = known[name]
        paths = [str(checkpoint(name, system, seed, output)) for seed in system.seeds]
        row.update({"path": paths[0]} if len(paths) == 1 else {"paths": paths})
        row["training"] = _training(name, system, output / "logs")
        if "reranker" in row:
            chosen = known[row["reranker"]]
            row["reranker"] = str(checkpoint(row["reranker"], chosen, chosen.seeds[0], output))
        rows.append(row)
    plain = {k: v for k, v in recipe.compare.items() if k not in ("systems", "splits")}
    return {"data": str(output / "raw"), **plain, "split": split, "systems": rows}


def comparison_step(recipe: Recipe, output: Path, split: str) -> Step:
    """Writes the comparison file and gives the command that runs it."""
    config = output / f"compare-{split}.yaml"
    config.write_text(
        yaml.safe_dump(comparison(recipe, output, split), sort_keys=False, allow_unicode=True),
        "utf-8",
    )
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
    return Step(f"compare-{split}", words, Path(f"{stem}.md"), 1, tuple(needs))
