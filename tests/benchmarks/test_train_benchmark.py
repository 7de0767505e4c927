"""The training benchmark: the same pairs for every system, through fairseq's trainer."""

import json
from pathlib import Path
from typing import Dict, Tuple

import numpy as np
import pytest
import torch
import train
from reporting import KEYS
from training import SYSTEMS, Size, Updates, dictionary_of, random_lengths, random_pairs, samples

TINY = Size(layers=1, width=16, ffn=16, heads=2, vocabulary=60, max_tokens=128, mean_length=6.0)


def test_lengths_have_the_mean_and_belong_together() -> None:
    lengths = random_lengths(20_000, 20.0, np.random.default_rng(1))
    assert lengths.min() >= 2
    assert lengths.mean(0) == pytest.approx([20.0, 20.0], abs=0.6)
    assert 0.8 < np.corrcoef(lengths.T)[0, 1] < 0.99


def test_batches_fill_the_limit_and_keep_it() -> None:
    pairs = random_pairs(TINY, 9)
    assert len(pairs.batches) == 9
    flat = [i for batch in pairs.batches for i in batch]
    assert flat == list(range(len(pairs.sources)))
    for batch in pairs.batches:
        widest = max(max(len(pairs.sources[i]), len(pairs.targets[i])) + 1 for i in batch)
        assert len(batch) * widest <= TINY.max_tokens
        assert len(batch) % 8 == 0 or len(batch) < 8
    for side in (pairs.sources, pairs.targets):
        ids = torch.cat(side)
        assert int(ids.max()) < TINY.vocabulary and int(ids[ids.ne(2)].min()) > 3


def test_every_system_gets_the_same_words() -> None:
    pairs = random_pairs(TINY, 3)
    made = {system: samples(system, pairs, dictionary_of(TINY)) for system in SYSTEMS}
    for number, batch in enumerate(pairs.batches):
        words: Dict[str, list] = {}
        for system, batches in made.items():
            sample = batches[number]
            order = sample["id"].argsort()
            sides = sample["net_input"]["src_tokens"][order], sample["target"][order]
            words[system] = [[row[row.gt(3)].tolist() for row in side] for side in sides]
            starts = sample["target"][:, 0].eq(0).all()
            assert bool(starts) == (system != "transformer")
        assert words["gmlm_transformer"] == words["cmlm_transformer"] == words["transformer"]
        expected = sum(len(row) + 1 for row in words["transformer"][1])
        assert pairs.target_tokens(batch) == expected


@pytest.mark.parametrize(
    "system",
    [("gmlm_transformer", "float32"), ("gmlm_transformer", "bfloat16"), ("cmlm_transformer",)],
)
def test_updates_change_weights_and_are_counted(system: Tuple[str, ...], tmp_path: Path) -> None:
    pairs = random_pairs(TINY, 2)
    updates = Updates(system[0], *(system[1:] or ("float32",)), TINY, pairs, tmp_path)
    weight = updates._trainer.model.decoder.embed_tokens.weight
    before = weight.detach().clone()
    for _ in range(3):
        updates()
    assert updates._trainer.get_num_updates() == 3
    assert not torch.equal(weight, before)
    counts = [pairs.target_tokens(batch) for batch in pairs.batches]
    assert updates.tokens == [counts[0], counts[1], counts[0]]
    assert len(updates.optimizer_ms) == 3 and min(updates.optimizer_ms) > 0
    assert 0.5 < updates.target_fill <= 1.0
    assert (
        updates._trainer.cfg.task.get("train_dtype", "float32") == (system[1:] or ("float32",))[0]
    )


def test_the_command_writes_rows_and_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(train, "Size", lambda **given: Size(**{**vars(TINY), "mean_length": 6.0}))
    monkeypatch.setattr(train, "peak_of", lambda *_: (1.0, 2.0))
    path = tmp_path / "train.json"
    threads = torch.get_num_threads()
    try:
        train.main(["--quick", "--rounds", "2", "--threads", "1", "--json", str(path)])
    finally:
        torch.set_num_threads(threads)
    rows = json.loads(path.read_text())
    assert [(row["system"], row["dtype"]) for row in rows] == [
        ("gmlm_transformer", "float32"),
        ("gmlm_transformer", "bfloat16"),
        ("cmlm_transformer", "float32"),
    ]
    assert all(key in row for row in rows for key in KEYS)
    assert all(0 < row["optimizer_share"] < 1 and row["tokens_per_second"] > 0 for row in rows)
    assert rows[2]["against_cmlm"] == 1.0
    bars = json.loads((tmp_path / "train.bars.json").read_text())
    assert [bar["at_least"] for bar in bars] == [1.3, 2.0]
    assert [bar["reached"] for bar in bars] == [row["against_cmlm"] for row in rows[:2]]
    printed = capsys.readouterr().out
    assert printed.count("met") + printed.count("missed") == 2
