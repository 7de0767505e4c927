"""Training, resuming and fine-tuning the language model with fairseq's own commands."""

import random
from argparse import Namespace

import lm_support as lm
import pytest
import torch
from fairseq import checkpoint_utils
from helpers.commands import call, run

from fairseq_gmlm.compat import load_plain
from fairseq_gmlm.tasks.language_modeling_gmlm import (
    LanguageModelingGMLMConfig,
    LanguageModelingGMLMTask,
)


def weights(folder):
    state = load_plain(folder / "checkpoint_last.pt")
    return state["model"]


def same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_training_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path):
    extra = ["--dropout", 0.1, "--whole-words", "auto", "--random-prob", 0.1, "--keep-prob", 0.1]
    through = lm.train(tmp_path / "through", *extra, updates=20)
    stopped = lm.train(tmp_path / "stopped", *extra, "--save-interval-updates", 10, updates=10)
    lm.train(stopped, *extra, updates=20)
    first, second = weights(through), weights(stopped)
    # Dropout draws from fairseq's own seed for each update, so it is restored too.
    same(first, second)


def test_noise_depends_on_seed_update_and_text_alone():
    cfg = LanguageModelingGMLMConfig(
        data=str(lm.data_bin()), tokens_per_sample=32, whole_words="auto", random_prob=0.1
    )
    cfg.seed = 1
    task = LanguageModelingGMLMTask.setup_task(cfg)
    task.load_dataset("valid")
    data = task.dataset("valid")
    together = data.collater([data[i] for i in range(8)])
    alone = data.collater([data[5]])
    shown = task.corrupt(together, 1, 40).tokens[5]
    same_text = task.corrupt(alone, 1, 40).tokens[0]
    assert torch.equal(shown[: len(same_text)], same_text)
    masks = [task.corrupt(together, 1, n).masked for n in (40, 41)]
    assert not torch.equal(*masks)
    cfg.seed = 2
    assert not torch.equal(LanguageModelingGMLMTask.setup_task(cfg).corrupt(together, 1, 40).masked, masks[0])  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sample-break-mode", "none", "--positions", "relative"],
        ["--sample-break-mode", "complete", "--positions", "buckets", "--mask-ratio", 0.5],
        ["--sample-break-mode", "complete_doc", "--mask-prior", "fixed", "--mask-ratio", 0.15,
         "--keep-prob", 0.1, "--random-prob", 0.1, "--loss-weights", "noised",
         "--loss-normalization", "tokens"],
        ["--mask-prior", "number", "--mask-number", 2, "--positions", "sinusoidal"],
        ["--train-dtype", "bfloat16", "--num-train-stages", 2],
    ],
)  # fmt: skip
def test_every_prior_break_mode_and_kind_of_position_trains(tmp_path, arguments):
    saved = lm.train(tmp_path, *arguments, updates=3)
    assert all(torch.isfinite(value).all() for value in weights(saved).values())


def test_the_named_tiny_architecture_trains_from_the_command_line(tmp_path):
    from helpers.commands import PACKAGE

    done = run(
        "train", lm.data_bin(), "--user-dir", PACKAGE, "--task", "language_modeling_gmlm",
        "--arch", "gmlm_lm_tiny", "--criterion", "gmlm_loss", "--loss-normalization",
        "per-sentence", "--optimizer", "adam", "--lr", 0.001, "--max-tokens", 512,
        "--tokens-per-sample", 64, "--max-update", 2, "--save-dir", tmp_path, "--cpu",
        "--log-format", "simple",
    )  # fmt: skip
    log = done.out + done.err
    assert "valid on 'valid' subset" in log
    assert "| length_loss" not in log and "length_loss=" not in log


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tokens-per-sample", 33], "--tokens-per-sample 33 is longer than --max-positions 32"),
        (["--valid-subset", "nothing"], "nothing"),
        (["--mask-ratio", 1.5], "mask ratio must be in"),
    ],
)
def test_what_cannot_be_trained_is_said(tmp_path, arguments, message):
    with pytest.raises(Exception, match=message):
        lm.train(tmp_path, *arguments, updates=1)


def test_other_models_and_criterions_are_refused():
    cfg = LanguageModelingGMLMConfig(data=str(lm.data_bin()))
    cfg.seed = 1
    task = LanguageModelingGMLMTask.setup_task(cfg)
    with pytest.raises(ValueError, match="trains --arch gmlm_lm, not transformer_lm"):
        task.build_model(Namespace(arch="transformer_lm"))
    with pytest.raises(ValueError, match="needs --criterion gmlm_loss, not cross_entropy"):
        task.build_criterion(Namespace(criterion="cross_entropy"))
    cfg.data = "nowhere"
    with pytest.raises(ValueError, match=r"no such file: nowhere.dict.txt; make the folder with"):
        LanguageModelingGMLMTask.setup_task(cfg)


def test_fairseq_generate_names_the_command_to_use():
    with pytest.raises(ValueError, match="generate with fairseq-gmlm fill"):
        call(
            "generate", lm.data_bin(), "--task", "language_modeling_gmlm", "--path",
            lm.checkpoint(), "--cpu", "--tokens-per-sample", 32,
        )  # fmt: skip


# -- fine-tuning with fairseq's own task -------------------------------------------------------


def labelled(folder, pairs, regression):
    """A data-bin of sentence_prediction: label 1 (or a number) where the first text has a cat."""
    from fairseq_gmlm.data.subwords import Segmenter

    rng, cut = random.Random(4), Segmenter(lm.codes())
    text = lambda: " ".join(cut(lm.sentence(rng).split()))  # noqa: E731
    sides = ["input0", "input1"] if pairs else ["input0"]
    for split, count in (("train", 160), ("valid", 40)):
        first, second, labels = [], [], []
        for _ in range(count):
            first.append(text())
            second.append(text())
            animal = next(a for a in lm.COLOURS if a in first[-1].replace("@@ ", ""))
            other = next(a for a in lm.COLOURS if a in second[-1].replace("@@ ", ""))
            good = animal == other if pairs else animal in ("cat", "dog")
            labels.append(str(float(good)) if regression else str(int(good)))
        columns = {"input0": first, "input1": second, "label": labels}
        for name, lines in columns.items():
            (folder / f"{name}.{split}").write_text("".join(f"{line}\n" for line in lines))
    for name in sides:
        call(
            "preprocess", "--only-source", "--trainpref", folder / f"{name}.train", "--validpref",
            folder / f"{name}.valid", "--destdir", folder / "bin" / name, "--srcdict",
            lm.data_bin() / "dict.txt",
        )  # fmt: skip
    if regression:
        (folder / "bin" / "label").mkdir()
        for split in ("train", "valid"):
            source = folder / f"label.{split}"
            (folder / "bin" / "label" / f"{split}.label").write_text(source.read_text())
    else:
        call(
            "preprocess", "--only-source", "--trainpref", folder / "label.train", "--validpref",
            folder / "label.valid", "--destdir", folder / "bin" / "label",
        )  # fmt: skip
    return folder / "bin"


def fine_tune(data, save_dir, *arguments, updates=60):
    call(
        "train", data, "--task", "sentence_prediction", "--criterion", "sentence_prediction",
        "--restore-file", lm.checkpoint(), "--reset-optimizer", "--reset-dataloader",
        "--reset-meters", "--reset-lr-scheduler", "--init-token", 0, "--separator-token", 2,
        *lm.MODEL, "--classification-head-name", "sentence_classification_head",
        "--optimizer", "adam", "--lr", 0.003, "--max-update", updates, "--batch-size", 32,
        "--save-dir", save_dir, "--no-epoch-checkpoints", "--cpu", "--num-workers", 0,
        "--required-batch-size-multiple", 1, "--log-format", "none", *arguments,
    )  # fmt: skip
    state = load_plain(save_dir / "checkpoint_last.pt")
    return float(state["extra_state"]["val_loss"])


def test_single_sentences_are_told_apart(tmp_path):
    data = labelled(tmp_path, pairs=False, regression=False)
    options = ["--num-classes", 2, "--best-checkpoint-metric", "accuracy",
               "--maximize-best-checkpoint-metric"]  # fmt: skip
    accuracy = fine_tune(data, tmp_path / "run", *options)
    assert accuracy > 95.0
    # Read back as RoBERTa's documentation does, the head included.
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "run" / "checkpoint_last.pt")], arg_overrides={"data": str(data)}
    )
    task.load_dataset("valid")
    dataset, right = task.dataset("valid"), 0
    model = models[0].eval()
    for index in range(len(dataset)):
        sample = dataset.collater([dataset[index]])
        logits, _ = model(
            **sample["net_input"], classification_head_name="sentence_classification_head"
        )
        right += int(logits.argmax(-1) == sample["target"].view(-1))
    assert 100 * right / len(dataset) == pytest.approx(accuracy, abs=0.05)


def test_pairs_and_regression_train_from_a_checkpoint(tmp_path):
    for name, regression in (("pairs", False), ("regression", True)):
        folder = tmp_path / name
        folder.mkdir()
        data = labelled(folder, pairs=True, regression=regression)
        options = ["--num-classes", 1 if regression else 2]
        options += ["--regression-target"] if regression else []
        loss = fine_tune(data, folder / "run", *options, updates=30)
        before = 0.25 if regression else 1.0
        assert loss < 3 * before  # learns, or at least does not diverge


# -- translation with the same strategies ------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["any-order", "--decode-order", "left-to-right"],
        ["any-order", "--decode-order", "random", "--positions-per-pass", 2],
        ["any-order", "--decode-order", "surest-first"],
        ["easy-first"],
        ["easy-first", "--positions-per-pass", 3],
        ["threshold", "--decode-threshold", 0.8],
        ["gibbs", "--gibbs-block", 2],
    ],
)
def test_translations_in_any_order(toy_bin, toy_run, options):
    from helpers import toy
    from helpers.commands import hypotheses, tagged

    printed = call(
        "generate", *toy.decoding(toy_bin, toy_run / "checkpoint_last.pt"), "--batch-size", 64,
        "--decode-strategy", *options,
    )  # fmt: skip
    found, wanted = hypotheses(printed), tagged(printed, "T")
    right = sum(found[number][0].text == wanted[number] for number in wanted)
    assert len(found) == toy.SIZES["test"]
    assert right / len(wanted) > 0.95
    assert not any("mask" in h.text for many in found.values() for h in many)
