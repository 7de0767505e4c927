"""The reader for torch before 2.4: plain data is read, everything else is refused."""

import argparse
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch

from fairseq_gmlm import plain_pickle

WEIGHT = torch.arange(6.0).view(2, 3)
STATE = {
    "model": OrderedDict(a=WEIGHT, same=WEIGHT, half=WEIGHT.half(), brain=WEIGHT.bfloat16()),
    "parameter": torch.nn.Parameter(WEIGHT),
    "bits": WEIGHT > 2,
    "ids": WEIGHT.long(),
    "view": WEIGHT[:, 1:],
    "dtype": torch.float16,
    "size": torch.Size([2, 3]),
    "args": argparse.Namespace(arch="transformer", lr=[0.1]),
    "meters": [np.float64(1.5), np.float32(2.5), np.int64(3), np.arange(3)],
    "seen": {1, 2},
}


@pytest.fixture(params=[True, False], ids=["zip", "before torch 1.6"])
def save(request, tmp_path):
    def to_file(state):
        torch.save(state, tmp_path / "c.pt", _use_new_zipfile_serialization=request.param)
        return tmp_path / "c.pt"

    return to_file


def read(path):
    return torch.load(path, map_location="cpu", pickle_module=plain_pickle, weights_only=False)


def test_everything_that_a_checkpoint_holds_is_read(save):
    found = read(save(STATE))
    assert list(found["model"]) == list(STATE["model"])
    for name, value in STATE["model"].items():
        assert found["model"][name].dtype == value.dtype
        assert torch.equal(found["model"][name], value)
    assert found["model"]["a"].data_ptr() == found["model"]["same"].data_ptr()
    assert isinstance(found["parameter"], torch.nn.Parameter)
    for name in ("parameter", "bits", "ids", "view"):
        assert torch.equal(found[name], STATE[name])
    for name in ("dtype", "size", "args", "seen"):
        assert found[name] == STATE[name]
    np.testing.assert_equal(found["meters"], STATE["meters"])


class Hostile:
    """Unpickling this calls a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "function, arguments",
    [(os.mkdir, ("trap",)), (eval, ("1",)), (getattr, (1, "real")), (torch.load, ("c.pt",))],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_anything_else_is_refused_before_it_is_imported(save, function, arguments):
    path = save({"model": {}, "args": Hostile(function, *arguments)})
    with pytest.raises(pickle.UnpicklingError, match=rf"Unsupported global: .*{function.__name__}"):
        read(path)
    assert not os.path.exists("trap")


def test_a_class_of_this_package_is_refused_too(save):
    with pytest.raises(pickle.UnpicklingError, match="Hostile"):
        read(save({"model": {}, "args": Hostile}))


def test_the_list_holds_no_way_out():
    allowed = plain_pickle._allowed()
    assert not {module for module, _ in allowed} & {"os", "posix", "subprocess", "sys", "functools"}
    dangerous = {"eval", "exec", "getattr", "__import__", "compile", "open", "_load_from_bytes"}
    assert not {name for _, name in allowed} & dangerous
