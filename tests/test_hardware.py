"""Where bfloat16 counts as fast."""

from types import SimpleNamespace
from typing import Iterator

import pytest
import torch

from fairseq_gmlm.hardware import fast_bfloat16


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Answers are kept for good; not those of these tests."""
    fast_bfloat16.cache_clear()
    yield
    fast_bfloat16.cache_clear()


@pytest.mark.parametrize("capability, hip, expected", [
    ((7, 0), None, False), ((7, 5), None, False), ((8, 0), None, True), ((9, 0), None, True),
    ((7, 0), "6.1", True),
])  # fmt: skip
def test_gpus_by_their_capability(capability, hip, expected, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert fast_bfloat16("cuda") is expected


@pytest.mark.parametrize("supported", [False, True])
def test_cpus_by_the_kernels_of_onednn(supported, monkeypatch) -> None:
    kernels = SimpleNamespace(_is_mkldnn_bf16_supported=lambda: supported)
    monkeypatch.setattr(torch, "ops", SimpleNamespace(mkldnn=kernels))
    assert fast_bfloat16("cpu") is supported


def test_what_is_not_known_is_not_fast(monkeypatch) -> None:
    monkeypatch.setattr(torch, "ops", SimpleNamespace(mkldnn=SimpleNamespace()))
    assert fast_bfloat16("cpu") is False
    assert fast_bfloat16("mps") is False
