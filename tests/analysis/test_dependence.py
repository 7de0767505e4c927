"""Dependence by the formula written out, and on a model's own maps."""

import pytest
import torch
from chain_examples import mask_predict_chain
from helpers import models as make

from fairseq_gmlm.analysis.decoder import Decoder
from fairseq_gmlm.analysis.dependence import GROUPS, batch_sums, pair_sums, reduce_maps, summarise
from fairseq_gmlm.analysis.intervals import Bootstrap
from fairseq_gmlm.models.decoder import Decoded


def by_hand(inner, entropy, predicted, draft) -> dict:
    """Sums and counts in loops over pairs."""
    found = {name: [0.0, 0] for name in GROUPS}

    def note(name, value):
        found[name][0] += float(value)
        found[name][1] += 1

    size, stuttered = len(draft), set()
    for i in range(size):
        for j in range(i + 1, size):
            if not (predicted[i] and predicted[j]):
                continue
            dep = (inner[i, j] + inner[j, i]) / 2
            if j > i + 1:
                note("distant", dep)
            elif draft[i] == draft[j]:
                note("stutter", dep)
                stuttered |= {i, j}
            else:
                note("adjacent", dep)
    for i in range(size):
        if predicted[i]:
            note("entropy_stutter" if i in stuttered else "entropy_other", entropy[i])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_one_sentence(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    inner, entropy = torch.rand(7, 7, generator=rng), torch.rand(7, generator=rng)
    predicted = torch.rand(7, generator=rng) > 0.2
    draft = torch.randint(0, 2, (7,), generator=rng)
    expected = by_hand(inner, entropy, predicted, draft)
    sums = pair_sums(inner, entropy, predicted, draft)
    for name, row in zip(GROUPS, sums.tolist()):
        assert row == pytest.approx(expected[name], abs=1e-5), name


def test_reduction_over_layers_and_heads() -> None:
    rng = torch.Generator().manual_seed(0)
    inner = torch.rand(2, 3, 4, 5, 5, generator=rng).softmax(-1)
    cross = torch.rand(2, 3, 4, 5, 6, generator=rng).softmax(-1)
    decoded = Decoded(torch.zeros(2, 5, 8), inner, cross)
    everything, last = reduce_maps(decoded, 0, "mean"), reduce_maps(decoded, 1, "max")
    torch.testing.assert_close(everything.inner, inner.mean((1, 2)))
    torch.testing.assert_close(last.inner, inner[:, 2].amax(1))
    entropy = -(cross[:, 2] * cross[:, 2].log()).sum(-1).mean(1)
    torch.testing.assert_close(last.entropy, entropy)
    torch.testing.assert_close(everything.cross.sum(-1), torch.ones(2, 5))


def test_every_pass_reads_the_maps_of_its_own_canvas() -> None:
    owner = make.task()
    model = make.model(owner)
    decoder = Decoder([model], owner, {"iter_decode_max_iter": 2, "iter_decode_with_beam": 2})
    rows = make.sources([4, 7])
    batch = make.sample(rows)
    sentences = decoder.decode(batch)
    found = batch_sums(model, batch, sentences, 1, "max")
    assert len(found) == 3
    for number, sums in enumerate(found):
        for place, row in enumerate(rows):
            step = sentences[place].chains[0].steps[number]
            memory = model.encode(torch.tensor([row]))
            canvas = torch.cat([torch.tensor([0]), step.shown, torch.tensor([2])])[None]
            with torch.no_grad():
                maps = model.decode(canvas, memory, need_weights=True)
            inner = maps.self_attention[0, -1].amax(0)[1:-1, 1:-1]
            cross = maps.cross_attention[0, -1][:, 1:-1]
            entropy = torch.special.entr(cross).sum(-1).mean(0)
            expected = by_hand(inner, entropy, step.predicted.tolist(), step.draft.tolist())
            for name, values in zip(GROUPS, sums[place].tolist()):
                assert values == pytest.approx(expected[name], abs=1e-4)


def test_summary() -> None:
    step = mask_predict_chain().steps[0]  # predicts 5 5 6
    inner = torch.tensor([[0.0, 0.4, 0.1], [0.2, 0.0, 0.1], [0.3, 0.5, 0.0]])
    sums = pair_sums(inner, torch.tensor([1.0, 2.0, 6.0]), step.predicted, step.draft)
    found = summarise(sums.expand(3, -1, -1), Bootstrap(20))
    assert found.stutter.value == pytest.approx(0.3)
    assert found.adjacent.value == pytest.approx(0.3)
    assert found.distant.value == pytest.approx(0.2)
    assert found.difference.value == pytest.approx(0.0)
    assert found.within.value == pytest.approx(0.0)
    assert found.entropy_difference.value == pytest.approx(1.5 - 6.0)
    assert found.entropy_difference.high == pytest.approx(-4.5)
