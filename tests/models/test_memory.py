"""The encoded source: made once, cut to the sentences that are still running."""

import torch
from helpers import models as make

from fairseq_gmlm.models.memory import Memory


def memory(length_state: bool = True) -> Memory:
    """Three sentences whose numbers tell where they come from."""
    states = torch.arange(3 * 2 * 4.0).view(3, 2, 4).requires_grad_()
    keys = torch.arange(3 * 2 * 2 * 2.0).view(3, 2, 2, 2)
    return Memory(
        states=states,
        real=torch.tensor([[True, True], [True, False], [False, True]]),
        mask=torch.tensor([[True, True], [True, False], [False, True]])[:, None, None],
        cross=[(keys, keys + 100), (keys + 200, keys + 300)],
        length_state=torch.arange(12.0).view(3, 4) if length_state else None,
    )


def test_select_takes_every_part_of_the_sentences() -> None:
    whole, index = memory(), torch.tensor([2, 0])
    part = whole.select(index)
    assert torch.equal(part.states, whole.states[index])
    assert torch.equal(part.real, whole.real[index])
    assert torch.equal(part.mask, whole.mask[index])
    assert torch.equal(part.length_state, whole.length_state[index])
    for mine, other in zip(part.cross, whole.cross):
        assert torch.equal(mine[0], other[0][index]) and torch.equal(mine[1], other[1][index])


def test_absent_parts_stay_absent() -> None:
    whole = memory(length_state=False)
    whole.mask = None
    part = whole.select(torch.tensor([1]))
    assert part.mask is None and part.length_state is None


def test_detach_cuts_the_gradient_and_keeps_the_values() -> None:
    whole = memory()
    cut = whole.detach()
    assert whole.states.requires_grad and not cut.states.requires_grad
    assert torch.equal(cut.states, whole.states)


def test_keys_and_values_are_projected_once_per_layer() -> None:
    model = make.model()
    calls = []
    for layer in model.decoder.layers:
        for part in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj):
            part.register_forward_hook(lambda *_: calls.append(1))
    encoded = model.encode(make.pad(make.sources((3, 4))))
    assert len(calls) == 4
    for _ in range(3):
        model.decode(make.pad(make.targets((2, 3, 4, 5))), encoded)
    assert len(calls) == 4
    assert [tuple(k.shape) for k, _ in encoded.cross] == [(2, 2, 5, 8)] * 2
