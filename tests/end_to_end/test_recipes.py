"""Recipes: every file is read, every training command is one that fairseq takes, a small one runs."""

import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from fairseq import options

from fairseq_gmlm.data.checkpoints import load_checkpoint

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FILES = [
    EXAMPLES / "multi30k" / "recipe.yaml",
    *sorted((EXAMPLES / "wmt").glob("*.yaml")),
    *sorted((EXAMPLES / "iwslt14").glob("*.yaml")),
]


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(EXAMPLES / "recipes"))
    yield
    sys.path.remove(str(EXAMPLES / "recipes"))


def steps_of(path):
    from recipe import read_recipe
    from steps import all_steps

    return all_steps(read_recipe(path), Path("text"), Path("out"), threads=1, cores=2)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_training_command_is_understood(path):
    for step in steps_of(path):
        words = shlex.split(step.shown)
        if words[0] == "fairseq-train":
            args = options.parse_args_and_arch(options.get_training_parser(), words[1:])
            assert args.save_dir == str(step.result.parent)
            assert args.max_update or args.max_epoch
            assert ("distill" in step.needs) == (args.data == "out/distilled")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_step_comes_after_what_it_needs(path):
    seen = set()
    for step in steps_of(path):
        assert seen.issuperset(step.needs), step.name
        assert step.name not in seen
        seen.add(step.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_comparison_is_one_that_compare_reads(path, tmp_path):
    from comparing import comparison_step
    from recipe import read_recipe

    from fairseq_gmlm.comparison.reading import read_spec

    recipe = read_recipe(path)
    comparison_step(recipe, tmp_path, "test")
    spec = read_spec(tmp_path / "compare-test.yaml")
    assert [row.name for row in spec.systems] == [row["name"] for row in recipe.compare["systems"]]
    # Stock CMLM leaves masks behind unless it uses all passes.
    for row in recipe.compare["systems"]:
        if row["system"].startswith("cmlm"):
            assert row["options"]["iter_decode_force_max_iter"] is True


def test_what_is_trained_so_far_can_be_compared(tmp_path):
    from comparing import comparison
    from recipe import read_recipe

    from fairseq_gmlm.errors import UserError

    recipe = read_recipe(FILES[0])
    with pytest.raises(UserError, match="nothing is trained yet"):
        comparison(recipe, tmp_path, "test", trained_only=True)
    (tmp_path / "logs").mkdir()
    # A training that was not averaged does not count.
    for step in ("teacher", "gmlm-2-average", "cmlm-1-average", "cmlm-2-average", "nat"):
        (tmp_path / "logs" / f"{step}.done.json").write_text('{"seconds": 1}')
    (tmp_path / "teacher").mkdir()
    # Twice interrupted, say: the last run alone took less.
    state = {"model": {}, "args": None, "extra_state": {"previous_training_time": 12.3}}
    torch.save(state, tmp_path / "teacher" / "checkpoint_last.pt")
    rows = comparison(recipe, tmp_path, "test", trained_only=True)["systems"]
    found = {row["name"]: row.get("paths") or [row["path"]] for row in rows}
    every = {row["name"]: row["system"] for row in recipe.compare["systems"]}
    assert set(found) == {n for n, s in every.items() if s in ("teacher", "gmlm", "cmlm")}
    assert found["GMLM, 4 passes"] == [str(tmp_path / "gmlm-2" / "averaged.pt")]
    assert len(found["CMLM, 4 passes"]) == 2
    assert rows[0]["training"] == {"stages": 1, "seconds": 12}


def test_every_baseline_starts_from_a_file_that_fits_it():
    steps = {step.name: shlex.split(step.shown) for step in steps_of(FILES[0])}
    for name in ("cmlm-1", "nat", "iterative-nat", "levenshtein", "insertion"):
        words = steps[name]
        arch, start = (words[words.index(f"--{x}") + 1] for x in ("arch", "finetune-from-model"))
        made = steps[Path(start).stem]
        assert made[:2] == ["fairseq-gmlm", "warm-start"] and made[-2:] == ["--output", start]
        own = arch in ("levenshtein_transformer", "insertion_transformer")
        assert (arch in made) == own


def test_baselines_have_the_same_data_size_updates_and_dropout():
    from recipe import read_recipe

    recipe = read_recipe(FILES[0])
    ours, stock = recipe.systems["gmlm"], recipe.systems["cmlm"]
    assert (ours.data, ours.start, ours.seeds) == (stock.data, stock.start, stock.seeds)
    for name in ("dropout", "max-update", "warmup-updates"):
        assert ours.options[name] == stock.options[name]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tier": 1}, "unknown key 'tier'"),
        (
            {"systems": {"a": {"options": {}, "data": "clean"}}},
            "data must be one of raw, distilled",
        ),
        ({"systems": {"a": {"options": {}, "seeds": [1, 1]}}}, "seeds must be different"),
        ({"systems": {"a": {}}}, "systems: a: missing"),
        (
            {"systems": {"a": {"options": {}, "start": "b"}, "b": {"options": {}}}},
            "a: start must be one of none, teacher .a system above it., not 'b'",
        ),
        (
            {
                "systems": {
                    "a": {"options": {}},
                    "b": {"options": {}, "start": "a", "seeds": [1, 2]},
                }
            },
            "b: goes on with a, so it needs its data .distilled. and seeds among its seeds .1.",
        ),
        (
            {"systems": {"a": {"options": {}}, "b": {"options": {}, "start": "a"}}},
            "b: goes on with a, so it needs average: 1 or more",
        ),
    ],
)
def test_a_wrong_recipe_is_named(tmp_path, change, message):
    from recipe import read_recipe

    from fairseq_gmlm.errors import UserError

    given = yaml.safe_load(FILES[0].read_text("utf-8"))
    given.pop("compare")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({**given, **change}), "utf-8")
    with pytest.raises(UserError, match=message):
        read_recipe(tmp_path / "recipe.yaml")


def small_recipe(folder):
    """The Multi30k recipe's form with a few updates."""
    train = {
        "max-update": 4, "warmup-updates": 2, "max-tokens": 3000, "max-target-positions": 256,
        "max-source-positions": 256, "user-dir": "fairseq_gmlm", "optimizer": "adam", "lr": 0.001,
        "cpu": True, "num-workers": 0, "data-buffer-size": 0, "log-format": "none",
        "required-batch-size-multiple": 1,
    }  # fmt: skip
    body = {"share-all-embeddings": True}
    for side in ("encoder", "decoder"):
        body[f"{side}-embed-dim"] = body[f"{side}-ffn-embed-dim"] = 16
        body[f"{side}-layers"], body[f"{side}-attention-heads"] = 1, 2
    gmlm = {"task": "translation_gmlm", "arch": "gmlm_transformer", "criterion": "gmlm_loss"}
    stock = {"task": "translation_lev", "arch": "cmlm_transformer", "noise": "random_mask",
             "criterion": "nat_loss", "label-smoothing": 0.1}  # fmt: skip
    passes = {"iter_decode_max_iter": 1, "iter_decode_with_beam": 2}
    forced = {**passes, "iter_decode_force_max_iter": True}
    recipe = {
        "languages": ["en", "de"],
        "text": {"train": "train", "valid": "valid", "test": "test"},
        "prepare": {"bpe-merges": 50},
        "body": body,
        "train": train,
        "teacher": {"options": {"task": "translation", "arch": "transformer",
                                "criterion": "label_smoothed_cross_entropy"}},
        "distill": {"beam": 2, "max-len-a": 1, "max-len-b": 3},
        "systems": {"gmlm": {"options": gmlm, "seeds": [1, 2], "average": 1},
                    "longer": {"options": {**gmlm, "max-update": 6}, "start": "gmlm", "seeds": [2],
                               "average": 1},
                    "cmlm": {"options": stock}},
        "compare": {
            "latency_sentences": 2,
            "systems": [
                {"name": "ours", "system": "gmlm", "options": passes, "reranker": "teacher"},
                {"name": "stock", "system": "cmlm", "options": forced},
                {"name": "longer", "system": "longer", "options": passes},
            ],
        },
    }  # fmt: skip
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), "utf-8")
    return path


def small_text(folder):
    """A part of the quickstart's sentences."""
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 6), ("test", 6)):
        for language in ("en", "de"):
            source = EXAMPLES / "quickstart" / "data" / f"{split}.{language}.gz"
            with gzip.open(source, "rt", encoding="utf-8") as lines:
                kept = [line for _, line in zip(range(count), lines)]
            (folder / f"{split}.{language}").write_text("".join(kept), "utf-8")
    return folder


@pytest.mark.slow
def test_a_recipe_runs_from_text_to_table_and_only_once(tmp_path):
    def run(*more):
        return subprocess.run(
            [sys.executable, str(EXAMPLES / "recipes" / "run.py"), str(recipe), "--text", str(text),
             "--output", str(tmp_path / "out"), "--jobs", "2", *more],
            cwd=ROOT, capture_output=True, text=True, timeout=400,
        )  # fmt: skip

    recipe, text = small_recipe(tmp_path), small_text(tmp_path / "text")
    printed = run("--dry-run")
    assert printed.returncode == 0, printed.stderr[-3000:]
    assert printed.stdout.count("fairseq-train ") == 5
    assert not (tmp_path / "out").exists()
    done = run()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = json.loads((tmp_path / "out" / "comparison-test.json").read_text("utf-8"))
    assert [(row["name"], row["seeds"]) for row in rows] == [
        ("ours", 2), ("stock", 1), ("longer", 1)
    ]  # fmt: skip
    log = (tmp_path / "out" / "logs" / "longer.log").read_text("utf-8")
    assert "num_updates=4," not in log.replace(" ", "") and "@ 4 updates" in log
    spent = {}
    for name in ("gmlm-1", "gmlm-2", "longer"):
        state = load_checkpoint(tmp_path / "out" / name / "checkpoint_last.pt")
        spent[name] = state["extra_state"]["previous_training_time"]
    assert spent["longer"] > spent["gmlm-2"] > 0
    assert rows[0]["training_seconds"] == round((spent["gmlm-1"] + spent["gmlm-2"]) / 2)
    assert rows[2]["training_seconds"] == round(spent["longer"])
    again = run()
    assert again.returncode == 0, again.stdout[-3000:]
    assert "fairseq-train" not in again.stderr + again.stdout.replace("done before", "")
    wrong = run("--only", "gmlm-3")
    assert wrong.returncode == 2
    assert "gmlm-3: no such step; there are prepare, teacher" in wrong.stderr


def test_a_step_done_by_another_command_is_not_trusted(tmp_path):
    from commands import Runner, Step

    result = tmp_path / "made"
    runner = Runner(tmp_path)
    runner.run(Step("touch", ["touch", str(result)], result))
    assert runner.done(Step("touch", ["touch", str(result)], result))
    with pytest.raises(SystemExit, match="was done by another command"):
        runner.run(Step("touch", ["touch", "-c", str(result)], result))
    result.unlink()
    with pytest.raises(SystemExit, match="failed with status"):
        runner.run(Step("touch", ["false"], result))
