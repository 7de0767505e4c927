"""The task: data, noise that can be repeated, generators for every caller, and its refusals."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import LanguagePairDataset
from helpers import models as make
from omegaconf import OmegaConf

from fairseq_gmlm import hardware
from fairseq_gmlm.data.pairs import PairDataset
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.tasks import masked
from fairseq_gmlm.tasks.translation_gmlm import TranslationGMLMConfig, TranslationGMLMTask
from fairseq_gmlm.vocabulary import MASK

SOURCES, TARGETS = make.sources((3, 6, 2)), make.targets((9, 5, 12))


def loaded(data: Path, **options: Any) -> TranslationGMLMTask:
    """The task as a command makes it, over a real data-bin."""
    cfg = TranslationGMLMConfig(
        data=str(data),
        max_source_positions=16,
        max_target_positions=16,
        dataset_impl=None,  # what the command line resolves
        required_seq_len_multiple=1,
        train_subset="train",
        **options,
    )
    return TranslationGMLMTask.setup_task(cfg)


def test_both_dictionaries_get_the_mask() -> None:
    owner = make.task(mask_range=3)
    for dictionary in (owner.source_dictionary, owner.target_dictionary):
        assert dictionary.symbols[24] == MASK
        assert len(dictionary) == 4 + 20 + 1 + 3
    assert owner.plain_sizes == (24, 24)


def test_data_has_bos_before_targets(toy_bin: Path) -> None:
    for source_bos in (False, True):
        owner = loaded(toy_bin, source_bos=source_bos)
        owner.load_dataset("valid")
        data = owner.dataset("valid")
        assert isinstance(data, PairDataset)
        assert len(data) == 100
        for i in range(5):
            assert int(data[i]["target"][0]) == 0 and int(data[i]["target"][-1]) == 2
            assert (int(data[i]["source"][0]) == 0) == source_bos


@pytest.mark.parametrize("source_bos", [False, True])
def test_batch_buckets_round_widths_up(toy_bin: Path, source_bos: bool) -> None:
    """fairseq's own buckets fail with numpy 2 and would put BOS in front of the padding."""
    plain = loaded(toy_bin, source_bos=source_bos)
    owner = loaded(toy_bin, source_bos=source_bos, num_batch_buckets=2)
    for task in (plain, owner):
        task.load_dataset("valid")
    assert owner.cfg.num_batch_buckets == 2
    data, exact = owner.dataset("valid"), plain.dataset("valid")
    iterator = owner.get_batch_iterator(data, max_tokens=96, required_batch_size_multiple=4)
    seen, shapes = [], set()
    for sample in iterator.next_epoch_itr(shuffle=False):
        source = sample["net_input"]["src_tokens"]
        for row, index in zip(source, sample["id"].tolist()):
            assert row[row.ne(1)].tolist() == exact[index]["source"].tolist()
        seen += sample["id"].tolist()
        shapes.add((source.size(1), sample["target"].size(1)))
        assert len(source) * max(source.size(1), sample["target"].size(1)) <= 96
    assert sorted(seen) == list(range(100))
    assert 1 < len(shapes) <= 4


def test_noise_is_a_function_of_seed_stage_update_and_sentence() -> None:
    owner = make.task()
    sample = make.sample(SOURCES, TARGETS, ids=[5, 6, 7])
    first = owner.corrupt(sample, 1, 10)
    assert torch.equal(owner.corrupt(sample, 1, 10).tokens, first.tokens)
    for other in (owner.corrupt(sample, 1, 11), owner.corrupt(sample, 2, 10)):
        assert not torch.equal(other.tokens, first.tokens)
    moved = make.sample(SOURCES, TARGETS, ids=[8, 9, 10])
    assert not torch.equal(owner.corrupt(moved, 1, 10).tokens, first.tokens)
    # Alone, in another process, or after a restart.
    alone = make.sample(SOURCES[2:], TARGETS[2:], ids=[7])
    assert torch.equal(make.task().corrupt(alone, 1, 10).tokens[0], first.tokens[2, :14])
    seeded = make.task(seed=7).corrupt(sample, 1, 10)
    assert not torch.equal(seeded.tokens, first.tokens)


def test_frame_and_padding_are_never_touched() -> None:
    owner = make.task(mask_prior="fixed", random_prob=0.3)
    sample = make.sample(SOURCES, TARGETS)
    out, target = owner.corrupt(sample, 1, 1), sample["target"]
    frame = target.le(2)
    assert torch.equal(out.tokens[frame], target[frame])
    assert torch.equal(out.noised, ~frame)


@pytest.mark.parametrize("left", [True, False])
def test_typed_sources(left: bool) -> None:
    owner = make.task(left_pad_source=left)
    rows = [torch.tensor(row) for row in ([5, 1, 6, 2], [7, 2], [2])]
    data = owner.build_dataset_for_inference(rows, [4, 2, 1])
    batch = data.collater([data[i] for i in range(3)])
    found = {
        int(number): row[row.ne(1)].tolist()
        for number, row in zip(batch["id"], batch["net_input"]["src_tokens"])
    }
    assert found == {0: [5, 3, 6, 2], 1: [7, 2], 2: [2]}
    padded = batch["net_input"]["src_tokens"][-1].eq(1)
    assert bool(padded[0]) == left and bool(padded[-1]) != left
    with pytest.raises(ValueError, match="--constraints is not supported"):
        owner.build_dataset_for_inference(rows, [4, 2, 1], constraints=[])


def test_typed_sources_are_cut_at_what_the_models_know() -> None:
    owner = make.task(max_source_positions=1024)
    long = [torch.tensor([*range(4, 24), *range(4, 24), 2])]
    assert len(owner.build_dataset_for_inference(long, [41])[0]["source"]) == 41
    short, longer = make.model(max_source_positions=12), make.model(max_source_positions=30)
    owner.build_generator([longer, short], Namespace())
    cut = owner.build_dataset_for_inference(long, [41])[0]["source"]
    assert cut.tolist() == [*range(4, 15), 2]


@pytest.mark.parametrize(
    "args",
    [
        Namespace(),
        Namespace(iter_decode_max_iter=3, beam=5),
        OmegaConf.create({"iter_decode_max_iter": 3, "nbest": 1, "sampling": False}),
    ],
    ids=["eval-bleu", "generate", "omegaconf"],
)
def test_generators_are_built_as_every_caller_does(args: Any) -> None:
    """fairseq#1307: generate, interactive, --eval-bleu and the hub call with different keywords."""
    owner, model = make.task(), make.model()
    calls = [
        owner.build_generator([model], args),
        owner.build_generator(
            [model], args, extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 0.0}
        ),
        owner.build_generator([model], args, prefix_allowed_tokens_fn=None),
        owner.build_generator([model], args, seq_gen_cls=None),
    ]
    assert all(isinstance(found, GMLMGenerator) for found in calls)
    passes = 4 if getattr(args, "iter_decode_max_iter", None) else 11
    assert {found.options.passes for found in calls} == {passes}


def test_task_options_hold_unless_the_call_says_otherwise() -> None:
    owner, model = make.task(decode_strategy="refine", decode_start="random"), make.model()
    assert owner.build_generator([model], Namespace()).strategy.start == "random"
    changed = owner.build_generator([model], Namespace(decode_start="mask"))
    assert changed.strategy.start == "mask"


def test_what_generators_cannot_do_is_refused() -> None:
    owner, model = make.task(), make.model()
    with pytest.raises(ValueError, match="--lm-path is not supported"):
        owner.build_generator([model], Namespace(), extra_gen_cls_kwargs={"lm_model": model})
    with pytest.raises(ValueError, match="prefix_allowed_tokens_fn is not supported"):
        owner.build_generator([model], Namespace(), prefix_allowed_tokens_fn=lambda *_: [])


def test_foreign_models_and_criterions_are_refused() -> None:
    owner = make.task()
    with pytest.raises(ValueError, match=r"trains --arch gmlm_transformer, not cmlm_transformer;"):
        owner.build_model(Namespace(_name="cmlm_transformer"))
    with pytest.raises(ValueError, match=r"not nat_loss; add: --criterion gmlm_loss"):
        owner.build_criterion(Namespace(_name="nat_loss"))


def test_bfloat16_reaches_the_criterion() -> None:
    seen = []

    def criterion(model: Any, sample: Any) -> Any:
        """Notes what a matrix product gives."""
        seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        return torch.zeros((), requires_grad=True), 1, {}

    for dtype in ("float32", "bfloat16"):
        owner = make.task(train_dtype=dtype)
        model, sample = make.model(owner), make.sample(SOURCES, TARGETS)
        optimizer = Namespace(backward=lambda loss: loss.backward())
        owner.train_step(sample, model, criterion, optimizer, 1)
        owner.valid_step(sample, model, criterion)
    assert seen == [torch.float32] * 2 + [torch.bfloat16] * 2


@pytest.mark.parametrize("fast", [False, True])
def test_auto_is_bfloat16_only_where_that_is_fast(
    fast: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (hardware, masked):
        monkeypatch.setattr(module, "fast_bfloat16", lambda device: fast)
    masked.warn_of_slow_bfloat16.cache_clear()
    for dtype, wanted in (("auto", fast), ("bfloat16", True), ("float32", False)):
        owner = make.task(train_dtype=dtype)
        for _ in range(2):
            found = masked.in_train_dtype(
                owner.cfg, lambda *_: torch.ones(2, 2) @ torch.ones(2, 2)
            )(None, {"target": torch.zeros(1)})
            assert (found.dtype == torch.bfloat16) == wanted
    warnings = [record for record in caplog.records if "many times slower" in record.message]
    assert len(warnings) == (0 if fast else 1)


def test_stock_pairs_are_not_changed_in_place(toy_bin: Path) -> None:
    owner = loaded(toy_bin)
    owner.load_dataset("valid")
    assert isinstance(owner.dataset("valid"), LanguagePairDataset)
    again = loaded(toy_bin)
    again.load_dataset("valid")
    assert torch.equal(owner.dataset("valid")[3]["target"], again.dataset("valid")[3]["target"])
