"""fairseq_gmlm.data.averaging: exact means."""

import pytest
import torch

from fairseq_gmlm.data.averaging import ParameterMean, average_checkpoints
from fairseq_gmlm.errors import UserError


def mean_of(*models):
    mean = ParameterMean("model0", models[0])
    for number, model in enumerate(models[1:], start=1):
        mean.add(f"model{number}", model)
    return mean.result()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_mean_of_equal_values_is_that_value(dtype, count):
    torch.manual_seed(0)
    value = torch.cat([torch.randn(100), torch.tensor([float("inf"), float("-inf"), 0.0, 1e-30])])
    model = {"w": value.to(dtype)}
    result = mean_of(*[{"w": model["w"].clone()} for _ in range(count)])["w"]
    assert result.dtype == dtype
    assert torch.equal(result, model["w"])


def test_the_mean_is_computed_in_double_precision():
    values = [
        torch.tensor([1.0, 1e8]),
        torch.tensor([1.0 + 2**-23, 1.0]),
        torch.tensor([1.0, -1e8]),
    ]
    result = mean_of(*[{"w": value} for value in values])["w"]
    expected = torch.stack([value.double() for value in values]).mean(0).float()
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=0)


def test_integers_are_the_first_checkpoints():
    result = mean_of({"n": torch.tensor([3])}, {"n": torch.tensor([8])})
    assert torch.equal(result["n"], torch.tensor([3]))


def test_tied_parameters_stay_tied_and_others_do_not():
    def model(scale):
        tied = torch.ones(4) * scale
        return {"a": tied, "b": tied, "c": torch.ones(4) * scale}

    result = mean_of(model(1.0), model(3.0))
    assert result["a"].data_ptr() == result["b"].data_ptr() != result["c"].data_ptr()
    assert torch.equal(result["b"], torch.full((4,), 2.0))


def test_differing_models_name_both_files_and_the_key():
    with pytest.raises(UserError, match=r"w has shape \[2\] in model0 and \[3\] in model1"):
        mean_of({"w": torch.zeros(2)}, {"w": torch.zeros(3)})
    with pytest.raises(UserError, match=r"model0 holds v, model1 does not"):
        mean_of({"v": torch.zeros(2)}, {})
    with pytest.raises(UserError, match=r"model1 holds v, model0 does not"):
        mean_of({}, {"v": torch.zeros(2)})


def test_the_rest_is_of_the_checkpoint_trained_longest(tmp_path):
    paths = []
    for updates in (20, 10):
        state = {
            "model": {"w": torch.full((2,), float(updates))},
            "optimizer_history": [{"num_updates": updates}],
            "last_optimizer_state": {"state": {}},
            "extra_state": {"val_loss": updates, "ema": {"w": torch.zeros(2)}},
        }
        paths.append(tmp_path / f"{updates}.pt")
        torch.save(state, paths[-1])
    state = average_checkpoints(paths)
    assert state["model"]["w"].tolist() == [15.0, 15.0]
    assert "last_optimizer_state" not in state
    assert state["extra_state"] == {"val_loss": 20, "averaged_from": ["20.pt", "10.pt"]}


def test_nothing_to_average():
    with pytest.raises(UserError, match="nothing to average"):
        average_checkpoints([])
