"""Pretraining on texts: pairs by hand, and checkpoints that translation goes on from."""

from pathlib import Path
from typing import Any, List

import numpy as np
import padir_support as support
import pytest
import torch
from helpers.commands import call
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.compat import load_plain
from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.data.pretraining import (
    OBJECTIVES,
    Objective,
    PretrainingDataset,
    prefix_lengths,
    split_spans,
)
from fairseq_gmlm.data.texts import TextDataset
from fairseq_gmlm.tasks.pretraining_gmlm import (
    PretrainingGMLMConfig,
    PretrainingGMLMTask,
    objective_of,
)

MASK, EOS = 99, 2


def rng(seed: int = 1, rows: int = 1) -> CounterRNG:
    return CounterRNG(seed, torch.arange(rows))


def put_back(source: List[int], target: List[int]) -> List[int]:
    """The text, from both sides."""
    spans: List[List[int]] = [[]]
    for token in target:
        if token == EOS:
            spans.append([])
        else:
            spans[-1].append(token)
    rest = iter(spans)
    return [x for token in source for x in (next(rest) if token == MASK else [token])]


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 60), st.sampled_from(["span", "long-span"]), st.integers(0, 99))
def test_both_sides_together_are_the_text(size: int, name: str, seed: int) -> None:
    words = torch.arange(100, 100 + size)
    objective = OBJECTIVES[name]
    source, target = split_spans(words, objective, rng(seed), MASK, EOS)
    assert put_back(source.tolist(), target.tolist()) == words.tolist()
    hidden, spans = (int(x[0]) for x in objective.counts(np.array([size])))
    assert len(source) == size - hidden + spans
    assert len(target) == hidden + spans - 1
    assert int((source == MASK).sum()) == spans


@pytest.mark.parametrize(
    "name,size,hidden,spans",
    [
        ("span", 100, 15, 5),
        ("span", 20, 3, 1),
        ("span", 2, 1, 1),
        ("long-span", 512, 256, 8),
        ("long-span", 128, 64, 2),
        ("long-span", 11, 6, 1),
    ],
)
def test_counts_by_hand(name: str, size: int, hidden: int, spans: int) -> None:
    found = OBJECTIVES[name].counts(np.array([size]))
    assert [int(x[0]) for x in found] == [hidden, spans]


def test_prefixes_are_uniform() -> None:
    number = 5000
    shown = prefix_lengths(torch.full((number,), 6), rng(rows=number))
    counts = torch.bincount(shown, minlength=7).tolist()
    assert counts[0] == counts[6] == 0
    assert sum((c - 1000) ** 2 / 1000 for c in counts[1:6]) < 18.5  # 4 degrees, p = .001


def texts(mode: str = "eos", longest: int = 16) -> TextDataset:
    lines = [torch.tensor([*range(4, 4 + n), EOS]) for n in (8, 1, 3, 12, 5)]
    return TextDataset(lines, [len(x) for x in lines], support.dictionary(), longest, mode)


def dataset(name: str, **options: Any) -> PretrainingDataset:
    return PretrainingDataset(texts(**options), OBJECTIVES[name], support.dictionary(), MASK)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_items_fit_their_sizes_and_frames(name: str) -> None:
    data = dataset(name)
    assert len(data) == 4  # the line of one word is left out
    for index in range(len(data)):
        item = data[index]
        assert data.size(index) == (len(item["source"]), len(item["target"]))
        assert item["source"][-1] == EOS
        assert (int(item["target"][0]), int(item["target"][-1])) == (0, EOS)
    prefix = dataset("prefix-lm")[2]
    joined = prefix["source"].tolist()[:-1] + prefix["target"].tolist()[1:-1]
    assert joined == list(range(4, 16))


def test_pairs_differ_between_epochs_and_not_between_runs() -> None:
    first, second = dataset("prefix-lm"), dataset("prefix-lm")
    drawn = []
    for epoch in (1, 2, 3, 4):
        first.set_epoch(epoch)
        second.set_epoch(epoch)
        assert first[2]["source"].tolist() == second[2]["source"].tolist()
        drawn.append(len(first[2]["source"]))
    assert len(set(drawn)) > 1


def test_ends_of_lines_within_a_block_are_left_out() -> None:
    data = dataset("span", mode="none", longest=14)
    for index in range(len(data)):
        item = data[index]
        assert EOS not in item["source"].tolist()[:-1]
        assert len(item["source"]) <= data.size(index)[0]
        assert len(item["target"]) <= data.size(index)[1]


def test_every_pair_is_in_one_batch() -> None:
    data = dataset("span")
    batches = data.batch_by_size(data.ordered_indices(), max_sentences=3)
    assert sorted(i for batch in batches for i in batch) == [0, 1, 2, 3]
    batch = data.collater([data[i] for i in batches[0]])
    assert batch["target"].shape[0] == batch["net_input"]["src_tokens"].shape[0]


def task(**options: Any) -> PretrainingGMLMTask:
    return PretrainingGMLMTask(PretrainingGMLMConfig(**options), support.dictionary())


def test_separators_are_neither_noised_nor_counted() -> None:
    own = task()
    target = torch.tensor([[0, 4, 5, 2, 6, 2]])
    sample = {"id": torch.tensor([3]), "target": target, "net_input": {}}
    for number in range(30):
        found = own.corrupt(sample, 1, number)
        assert found.tokens[0, [0, 3, 5]].tolist() == [0, 2, 2]
        assert not bool(found.noised[0, [0, 3, 5]].any())


@pytest.mark.parametrize(
    "options,match",
    [
        ({"objective": "prefix-lm", "span_mean": 3.0}, "has no spans"),
        ({"span_mean": 0.5}, "--span-mean"),
        ({"span_density": 1.0}, "--span-density"),
        ({"eval_bleu": True}, "--eval-bleu"),
    ],
)
def test_refusals(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        task(**options)


def test_spans_of_ones_own() -> None:
    cfg = PretrainingGMLMConfig(objective="span", span_mean=5.0)
    assert objective_of(cfg) == Objective(5.0, 0.15)
    cfg = PretrainingGMLMConfig(objective="long-span", span_density=0.3)
    assert objective_of(cfg) == Objective(32.0, 0.3)


def train(data: Path, save: Path, task_name: str, *more: Any) -> Path:
    """A few updates of a tiny model."""
    call(
        "train",
        data,
        "--save-dir",
        save,
        "--task",
        task_name,
        "--arch",
        "gmlm_transformer_tiny",
        "--share-all-embeddings",
        "--criterion",
        "gmlm_loss",
        "--optimizer",
        "adam",
        "--lr",
        0.002,
        "--batch-size",
        64,
        "--max-update",
        4,
        "--cpu",
        "--num-workers",
        0,
        "--data-buffer-size",
        0,
        "--max-source-positions",
        32,
        "--max-target-positions",
        32,
        "--no-epoch-checkpoints",
        "--dropout",
        0,
        *more,
    )
    return save / "checkpoint_last.pt"


def weights(path: Path) -> Any:
    return load_plain(path)["model"]


@pytest.fixture(scope="module")
def pretrained(toy_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    save = tmp_path_factory.mktemp("pretrained")
    return train(toy_bin, save, "pretraining_gmlm", "--text-side", "a", "--objective", "long-span")


def test_translation_is_fine_tuned_from_the_checkpoint(
    pretrained: Path, toy_bin: Path, tmp_path: Path
) -> None:
    last = train(
        toy_bin,
        tmp_path / "finetuned",
        "translation_gmlm",
        "--finetune-from-model",
        pretrained,
        "--lr",
        1e-12,
    )
    before, after = weights(pretrained), weights(last)
    assert before.keys() == after.keys()
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, atol=1e-6, rtol=0)


def test_translation_starts_with_parts_of_the_checkpoint(
    pretrained: Path, toy_bin: Path, tmp_path: Path
) -> None:
    last = train(
        toy_bin,
        tmp_path / "started",
        "translation_gmlm",
        "--init-from",
        pretrained,
        "--init-parts",
        "encoder,embeddings",
        "--lr",
        1e-12,
        "--seed",
        5,
    )
    before, after = weights(pretrained), weights(last)
    same = {
        name.split(".")[0]
        for name, value in before.items()
        if ".fc1.weight" in name and torch.allclose(after[name], value, atol=1e-6)
    }
    assert same == {"encoder"}
    name = "decoder.embed_tokens.weight"
    torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["span", "prefix-lm"])
def test_texts_without_a_pair(toy_raw: Path, tmp_path: Path, name: str) -> None:
    """A data-bin made with --only-source, in blocks."""
    call(
        "preprocess",
        "--only-source",
        "--trainpref",
        toy_raw / "valid.b",
        "--validpref",
        toy_raw / "test.b",
        "--destdir",
        tmp_path / "bin",
        "--workers",
        1,
    )
    last = train(
        tmp_path / "bin",
        tmp_path / "run",
        "pretraining_gmlm",
        "--objective",
        name,
        "--sample-break-mode",
        "none",
        "--tokens-per-sample",
        24,
    )
    assert last.is_file()


def test_a_missing_dictionary_says_which_data_to_give(toy_bin: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--text-side LANG"):
        train(toy_bin, tmp_path, "pretraining_gmlm")
