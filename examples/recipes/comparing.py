"""The comparison of a recipe: rows that name systems become rows that name checkpoints."""

import json
from pathlib import Path
from typing import Any, Dict

import yaml
from commands import Step, marker, ours
from recipe import Recipe
from steps import checkpoint, final_name, folder_name

from fairseq_gmlm.errors import UserError


def _seconds(name: str, recipe: Recipe, logs: Path) -> float:
    """Mean seconds of a system's trainings, with those that they go on from; 0 if none is done."""
    system = {**recipe.systems, "teacher": recipe.teacher}[name]
    markers = [marker(logs, folder_name(name, system, seed)) for seed in system.seeds]
    found = [json.loads(m.read_text("utf-8"))["seconds"] for m in markers if m.is_file()]
    if not found:
        return 0.0
    before = _seconds(system.start, recipe, logs) if system.start in recipe.systems else 0.0
    return before + sum(found) / len(found)


def _training(name: str, recipe: Recipe, logs: Path) -> Dict[str, Any]:
    """What a row says about its training: stages, and seconds if it is done."""
    system = {**recipe.systems, "teacher": recipe.teacher}[name]
    seconds = _seconds(name, recipe, logs)
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
        row["training"] = _training(name, recipe, logs)
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
