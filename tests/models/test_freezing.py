"""Frozen parts: no gradient through their outputs (spec 8.2)."""

from typing import Any, Set

import padir_support as support
import pytest
import torch

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig

SOURCE = torch.tensor([[4, 5, 6, 2], [7, 8, 9, 2]])
TARGET = torch.tensor([[0, 4, 5, 6, 7, 2], [0, 8, 9, 2, 1, 1]])


def trained(**options: Any) -> Set[str]:
    """Names of the parameters that a backward pass reaches."""
    task = support.task()
    values = {"learned_rejecter": True, "length_predictor": "token", **options}
    model = support.model(task, **values)
    sample = {
        "id": torch.arange(2),
        "ntokens": 6,
        "net_input": {"src_tokens": SOURCE, "src_lengths": torch.tensor([4, 4])},
        "target": TARGET,
    }
    sample["corruption"] = task.corrupt(sample, 1, 1)
    loss, _, _ = GMLMLoss(GMLMLossConfig(num_train_stages=2), task)(model, sample)
    loss.backward()
    return {n for n, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}


def parts(names: Set[str]) -> Set[str]:
    return {name.split(".")[0] for name in names}


def test_everything_is_trained_without_freezing() -> None:
    assert parts(trained()) == {"encoder", "decoder", "length_predictor", "rejecter"}


def test_a_frozen_encoder_leaves_the_rest() -> None:
    names = trained(freeze_encoder=True)
    assert parts(names) == {"decoder", "length_predictor", "rejecter"}
    assert "decoder.layers.0.encoder_attn.k_proj.weight" in names


def test_a_frozen_decoder_also_cuts_the_encoder_off_from_the_words() -> None:
    names = trained(freeze_decoder=True)
    assert parts(names) == {"encoder", "length_predictor", "rejecter"}  # by the length loss
    assert parts(trained(freeze_decoder=True, length_detach=True)) == {
        "length_predictor",
        "rejecter",
    }


def test_a_frozen_length_head_trains_neither_itself_nor_the_encoder() -> None:
    names = trained(freeze_length=True)
    assert parts(names) == {"encoder", "decoder", "rejecter"}
    assert "encoder.length_query" not in parts(names)
    assert parts(trained(freeze_length=True, freeze_decoder=True)) == {"rejecter"}


def test_a_frozen_rejecter() -> None:
    assert parts(trained(freeze_rejecter=True)) == {"encoder", "decoder", "length_predictor"}


def test_only_the_rejecter_can_be_trained_afterwards() -> None:
    names = trained(freeze_encoder=True, freeze_decoder=True, freeze_length=True)
    assert names == {"rejecter.weight", "rejecter.bias"}


def test_shared_embeddings_are_frozen_with_the_decoder() -> None:
    names = trained(freeze_decoder=True, freeze_length=True, share_all_embeddings=True)
    assert parts(names) == {"rejecter"}


@pytest.mark.parametrize(
    "options",
    [
        {"freeze_decoder": True, "freeze_length": True},
        {"freeze_decoder": True, "length_predictor": "oracle"},
        {
            "freeze_decoder": True,
            "freeze_length": True,
            "learned_rejecter": True,
            "freeze_rejecter": True,
        },
    ],
)
def test_nothing_left_to_train_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="leaves nothing to train"):
        support.model(**options)
