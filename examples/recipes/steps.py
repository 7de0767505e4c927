"""The commands of a recipe, in order, with what each one needs."""

from pathlib import Path
from typing import Any, Dict, List

from commands import Step, fairseq, ours
from recipe import Recipe, SystemRecipe, flags

from fairseq_gmlm.cli.warm_start import EDIT_HEADS


def checkpoint(name: str, system: SystemRecipe, seed: int, output: Path) -> Path:
    """The checkpoint that a trained system is judged by."""
    folder = output / folder_name(name, system, seed)
    return folder / ("averaged.pt" if system.average else "checkpoint_best.pt")


def folder_name(name: str, system: SystemRecipe, seed: int) -> str:
    """``gmlm-2`` for seed 2; one seed alone has no number.

    >>> folder_name("nat", SystemRecipe({}), 1)
    'nat'
    """
    return name if len(system.seeds) == 1 else f"{name}-{seed}"


def final_name(name: str, system: SystemRecipe, seed: int) -> str:
    """Name of the step that leaves the checkpoint."""
    return folder_name(name, system, seed) + ("-average" if system.average else "")


def prepare_step(recipe: Recipe, text: Path, output: Path) -> Step:
    """Raw text to a data-bin."""
    prefixes = {f"{split}pref": text / name for split, name in recipe.text.items()}
    source, target = recipe.languages
    options = {"source-lang": source, "target-lang": target, **prefixes, **recipe.prepare}
    raw = output / "raw"
    return Step(
        "prepare", ours("prepare", *flags({**options, "destdir": raw})), raw / "prepare.json"
    )


def is_stock(system: SystemRecipe, recipe: Recipe) -> bool:
    """One of fairseq's own models that decode in parallel."""
    return str(system.options.get("task", recipe.train.get("task"))) == "translation_lev"


def start_step(system: SystemRecipe, recipe: Recipe, output: Path) -> Step:
    """The teacher's weights for one of fairseq's models; one file does for all with a length head."""
    arch, teacher = str(system.options["arch"]), recipe.teacher
    name, more = "start", []
    if arch in EDIT_HEADS:
        name, more = f"start-{arch}", ["--arch", arch]
    start, seed = output / f"{name}.pt", teacher.seeds[0]
    path = checkpoint("teacher", teacher, seed, output)
    words = ours("warm-start", "--path", str(path), *more, "--output", str(start))
    return Step(name, words, start, 1, (final_name("teacher", teacher, seed),))


def training_steps(
    name: str, system: SystemRecipe, recipe: Recipe, output: Path, threads: int
) -> List[Step]:
    """One training for each seed, and the average of its last checkpoints if that is wanted."""
    steps = []
    for seed in system.seeds:
        place = folder_name(name, system, seed)
        folder = output / place
        options: Dict[str, Any] = {**recipe.body, **recipe.train, **system.options}
        needs = ["prepare" if system.data == "raw" else "distill"]
        if system.start == "teacher":
            if is_stock(system, recipe):
                start = start_step(system, recipe, output)
                options["finetune-from-model"] = start.result
                needs.append(start.name)
            else:
                first = recipe.teacher.seeds[0]
                options["init-from"] = checkpoint("teacher", recipe.teacher, first, output)
                needs.append(final_name("teacher", recipe.teacher, first))
        elif system.start != "none":
            # fairseq goes on from the last checkpoint that it finds in its folder, so a copy of
            # the other training's is all it takes; an interrupted run goes on from its own.
            before = folder_name(system.start, recipe.systems[system.start], seed)
            last = folder / "checkpoint_last.pt"
            words = ["cp", str(output / before / last.name), str(last)]
            steps.append(Step(f"{place}-start", words, last, 1, (before,)))
            needs.append(f"{place}-start")
        options.update(seed=seed, **{"save-dir": folder})
        words = fairseq("train", str(output / system.data), *flags(options))
        left = folder / ("checkpoint_last.pt" if system.average else "checkpoint_best.pt")
        steps.append(Step(place, words, left, threads, tuple(needs)))
        if system.average:
            averaged = folder / "averaged.pt"
            words = ours(
                *("average", "--checkpoint-dir", str(folder), "--last", str(system.average)),
                *("--output", str(averaged)),
            )
            steps.append(Step(f"{place}-average", words, averaged, 1, (place,)))
    return steps


def all_steps(recipe: Recipe, text: Path, output: Path, threads: int, cores: int) -> List[Step]:
    """Everything before the comparison.

    Args:
        recipe: what to do.
        text: folder of the raw text.
        output: folder of all results.
        threads: of each training besides the teacher's.
        cores: threads of what runs alone: teacher and distillation.
    """
    teacher = checkpoint("teacher", recipe.teacher, recipe.teacher.seeds[0], output)
    distilled = output / "distilled"
    steps = [prepare_step(recipe, text, output)]
    steps += training_steps("teacher", recipe.teacher, recipe, output, cores)
    last = final_name("teacher", recipe.teacher, recipe.teacher.seeds[0])
    words = ours(
        *("distill", "--path", str(teacher), "--data", str(output / "raw")),
        *("--destdir", str(distilled), *flags(recipe.distill)),
    )
    steps.append(Step("distill", words, distilled / "distill.json", cores, (last,)))
    started = [s for s in recipe.systems.values() if s.start == "teacher" and is_stock(s, recipe)]
    starts = [start_step(system, recipe, output) for system in started]
    steps += {step.name: step for step in starts}.values()
    for name, system in recipe.systems.items():
        steps += training_steps(name, system, recipe, output, threads)
    return steps
