"""The comparison from its file to its table."""

import csv
import json
from pathlib import Path

import pytest
import torch
import yaml
from toy_teacher import run_command

from fairseq_gmlm.data.checkpoints import load_checkpoint


@pytest.fixture(scope="module")
def gmlm(toy_data: Path, toy_teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GMLM started from the toy teacher and hardly trained."""
    folder = tmp_path_factory.mktemp("gmlm")
    body = load_checkpoint(toy_teacher)["cfg"]["model"]
    names = [
        f"{side}_{part}"
        for side in ("encoder", "decoder")
        for part in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
    ]
    done = run_command(
        *("fairseq_cli.train", toy_data, "--user-dir", "fairseq_gmlm"),
        *("--task", "translation_gmlm", "--arch", "gmlm_transformer", "--criterion", "gmlm_loss"),
        *(f"--{name.replace('_', '-')}={getattr(body, name)}" for name in names),
        *("--share-all-embeddings", "--init-from", toy_teacher, "--optimizer", "adam"),
        *("--lr", 0.001, "--max-tokens", 400, "--max-update", 4, "--num-workers", 0),
        *("--data-buffer-size", 0, "--cpu", "--save-dir", folder),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "checkpoint_last.pt"


def compare(config: dict, folder: Path, *more: object):
    """Run the command on ``config``."""
    path = folder / "systems.yaml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return run_command("fairseq_gmlm.cli.main", "compare", path, *more)


def test_rows_for_each_system(
    toy_data: Path, toy_teacher: Path, gmlm: Path, tmp_path: Path
) -> None:
    names = ["teacher", "gmlm", "reranked"]
    mask_predict = {"iter_decode_max_iter": 2, "iter_decode_force_max_iter": True}
    config = {
        "data": str(toy_data),
        "batch_size": 8,
        "latency_sentences": 2,
        "systems": [
            {"name": names[0], "path": str(toy_teacher), "options": {"beam": 2, "max_len_b": 10}},
            {"name": names[1], "path": str(gmlm), "options": mask_predict},
            {
                "name": names[2],
                "path": str(gmlm),
                "reranker": str(toy_teacher),
                "options": {**mask_predict, "iter_decode_with_beam": 3},
            },
        ],
    }
    files = {kind: tmp_path / f"rows.{kind}" for kind in ("json", "csv", "md", "tex")}
    done = compare(
        config, tmp_path, "--json", files["json"], "--csv", files["csv"],
        "--markdown", files["md"], "--latex", files["tex"], "--outputs", tmp_path / "out",
        "--cache", tmp_path / "cells",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads(files["json"].read_text("utf-8"))
    assert [row["name"] for row in rows] == names
    assert [row["system"] for row in rows] == ["transformer", *["gmlm_transformer"] * 2]
    assert rows[1]["passes"] == rows[2]["passes"] == 3.0
    assert rows[1]["parameters"] < rows[2]["parameters"]
    for row in rows:
        assert 0 <= row["bleu"] <= 100 and row["latency_ms"] > 0 and row["threads"] == 1
        assert row["signature"].startswith("nrefs:1")
    assert len(list(csv.DictReader(files["csv"].open(encoding="utf-8")))) == 3
    assert files["md"].read_text("utf-8") in done.stdout
    assert "\\begin{tabular}" in files["tex"].read_text("utf-8")
    again = compare(config, tmp_path, "--json", files["json"], "--cache", tmp_path / "cells")
    assert again.returncode == 0, again.stderr[-3000:]
    assert json.loads(files["json"].read_text("utf-8")) == rows  # nothing was timed again
    sentences = len((toy_data / "test.raw.de").read_text("utf-8").split("\n")) - 1
    for name in names:  # every sentence, though recent fairseq drops the last batch
        text = (tmp_path / "out" / f"{name}.txt").read_text("utf-8")
        assert text.count("\n") == sentences


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"path": "none.pt"}, "no checkpoint at none.pt"),
        ({"options": {"beams": 4}}, "no decoding option is called 'beams'"),
        ({"options": {"nbest": 9}}, "--nbest 9 is more than"),
    ],
)
def test_faults_are_named(row, message, toy_data: Path, gmlm: Path, tmp_path: Path) -> None:
    config = {"data": str(toy_data), "systems": [{"name": "x", "path": str(gmlm), **row}]}
    done = compare(config, tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and "'x'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_checkpoint_is_named(toy_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt"
    torch.save({"model": {}}, path)
    path.write_bytes(path.read_bytes()[:100])
    config = {"data": str(toy_data), "systems": [{"name": "x", "path": str(path)}]}
    done = compare(config, tmp_path)
    assert done.returncode == 2 and "cut.pt" in done.stderr
