"""Run a recipe from raw text to its table.

    python examples/recipes/run.py examples/multi30k/recipe.yaml --text FOLDER

Every step is a command that a user could type; it is printed before it runs, its output goes to
DIR/logs, and a step that was done is not run again. An interrupted training goes on from its last
checkpoint.
"""

import argparse
import os
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

from commands import ROOT, Runner, Step
from comparing import comparison_step
from recipe import read_recipe
from steps import all_steps

from fairseq_gmlm.errors import UserError


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("recipe", type=Path, help="YAML file, such as examples/multi30k/recipe.yaml")
    add("--text", type=Path, required=True, metavar="DIR", help="folder of the raw text")
    add("--output", type=Path, metavar="DIR", help="default: outputs/NAME of the recipe's folder")
    add("--jobs", type=int, default=1, metavar="N", help="trainings side by side (default: 1)")
    add("--threads", type=int, default=1, metavar="N",
        help="threads of each training besides the teacher's (default: 1)")  # fmt: skip
    add("--only", nargs="+", metavar="STEP", help="these steps and what they need, no comparison")
    add("--trained", action="store_true", help="train nothing; compare what is trained so far")
    add("--dry-run", action="store_true", help="print the commands and run nothing")
    args = parser.parse_args(argv)
    for name in ("jobs", "threads"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} {getattr(args, name)}: must be 1 or more")
    if args.only and args.trained:
        parser.error("--only trains and --trained compares: give one of them")
    return args


def chosen(steps: List[Step], only: Optional[List[str]]) -> List[Step]:
    """The steps named and all that they need, in order.

    Raises:
        UserError: no such step.
    """
    if not only:
        return steps
    known = {step.name: step for step in steps}
    wanted, queue = set(), list(only)
    while queue:
        name = queue.pop()
        if name not in known:
            raise UserError(f"--only {name}: no such step; there are {', '.join(known)}")
        if name not in wanted:
            wanted.add(name)
            queue += known[name].needs
    return [step for step in steps if step.name in wanted]


def run_all(steps: List[Step], runner: Runner, jobs: int) -> None:
    """Run steps as soon as what they need is done, at most ``jobs`` at a time.

    A step of more threads than one runs alone.
    """
    waiting, finished = list(steps), set()
    running: Dict[Future, Step] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while waiting or running:
            for step in list(waiting):
                alone = step.threads > 1 or any(s.threads > 1 for s in running.values())
                if len(running) >= jobs or (running and alone):
                    break
                if finished.issuperset(step.needs):
                    waiting.remove(step)
                    running[pool.submit(runner.run, step, len(running))] = step
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                finished.add(running.pop(future).name)


def run(args: argparse.Namespace) -> None:
    """All steps, then the comparison of each split."""
    recipe = read_recipe(args.recipe)
    output = (args.output or ROOT / "outputs" / args.recipe.resolve().parent.name).resolve()
    cores = os.cpu_count() or 1
    steps = all_steps(recipe, args.text.resolve(), output, args.threads, cores)
    steps = chosen(steps, args.only)
    if args.dry_run:
        for step in steps:
            print(step.shown)
        return
    if recipe.download and not args.text.is_dir():
        raise UserError(f"--text {args.text}: no such folder; {recipe.download}")
    output.mkdir(parents=True, exist_ok=True)
    runner = Runner(output)
    if not args.trained:
        run_all(steps, runner, args.jobs)
    if args.only or not recipe.compare:
        return
    for split in recipe.compare.get("splits", ["test"]):
        step = comparison_step(recipe, output, split, args.trained)
        if args.trained:  # more may be trained than the last time
            runner.marker(step).unlink(missing_ok=True)
        runner.run(step)
        print(f"\n{split}\n\n{step.result.read_text('utf-8')}")
    print(f"Everything is in {output}.")


def main(argv: Optional[List[str]] = None) -> int:
    """Entry point."""
    try:
        run(parse(argv))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
