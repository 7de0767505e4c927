"""Length predictors against hand-worked values, and length candidates (spec 3.5)."""

import math
from typing import Any

import padir_support as support
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_gmlm.models.lengths import (
    SHORTEST,
    AffineLength,
    FertilityLength,
    LengthClassifier,
    offset_beam,
    true_length,
)
from fairseq_gmlm.models.memory import Memory

ROWS = [[4, 5, 6], [7, 8, 9, 10, 5]]


def memory(states: torch.Tensor, real: torch.Tensor, length_state: Any = None) -> Memory:
    return Memory(states, real, None, [], length_state)


STATES = torch.tensor([[[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]], [[0.0, 2.0], [2.0, 2.0], [4.0, -1.0]]])
REAL = torch.tensor([[True, True, False], [True, True, True]])


def test_pooled_reads_the_mean_of_real_states() -> None:
    head = LengthClassifier(2, 5, from_token=False)
    output = head(memory(STATES, REAL))
    means = torch.tensor([[2.0, 1.0], [2.0, 1.0]])
    torch.testing.assert_close(output, means @ head.weight.t())


def test_token_reads_the_state_of_the_length_token() -> None:
    head = LengthClassifier(2, 5, from_token=True)
    state = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    torch.testing.assert_close(head(memory(STATES, REAL, state)), state @ head.weight.t())


def test_classifier_candidates_and_loss_by_hand() -> None:
    head = LengthClassifier(2, 5, from_token=False)
    output = torch.tensor([[9.0, 9.0, 0.0, 1.0, 3.0, 2.0]])
    lengths, scores = head.candidates(output, 3)
    assert lengths.tolist() == [[4, 5, 3]]  # 0 and 1 cannot be: BOS and EOS count
    log_z = math.log(sum(math.exp(x) for x in output[0].tolist()))
    assert scores[0].tolist() == pytest.approx([3 - log_z, 2 - log_z, 1 - log_z], abs=1e-5)
    found = head.loss(output, torch.tensor([5]), 0.0)
    assert float(found.loss) == pytest.approx(log_z - 2, abs=1e-5)
    assert int(found.correct) == 0 and not found.squared
    smoothed = head.loss(output, torch.tensor([5]), 0.1)
    mean = sum(log_z - x for x in output[0].tolist()) / 6
    assert float(smoothed.loss) == pytest.approx(0.9 * (log_z - 2) + 0.1 * mean, abs=1e-5)
    # longer than the table: clamped to its last class
    assert float(head.loss(output, torch.tensor([99]), 0.0).loss) == float(found.loss)


def test_affine_starts_at_the_source_length() -> None:
    head = AffineLength(longest=6)
    output = head(memory(STATES, REAL))
    assert output.tolist() == [3.0, 4.0]  # 2 and 3 source tokens, and BOS
    found = head.loss(output, torch.tensor([5, 4]), 0.1)
    assert float(found.loss) == 4.0 and int(found.correct) == 1 and found.squared
    found.loss.backward()
    assert float(head.offset.grad) == -4.0 and float(head.slope.grad) == -8.0


@pytest.mark.parametrize("output,expected", [(0.2, SHORTEST), (3.6, 4), (99.0, 6)])
def test_one_number_is_rounded_and_clipped(output: float, expected: int) -> None:
    lengths, scores = AffineLength(longest=6).candidates(torch.tensor([output]), 1)
    assert lengths.tolist() == [[expected]] and scores.tolist() == [[0.0]]


def test_one_number_has_no_second_guess() -> None:
    with pytest.raises(ValueError, match="one length, not 2"):
        AffineLength(longest=6).candidates(torch.tensor([3.0]), 2)


def test_fertility_by_hand() -> None:
    head = FertilityLength(2, longest=9, most=2)
    assert head.offsets.tolist() == [-3, -2, -1, 0, 1, 2]
    # all weight on one offset for each state: +2, then -1, wherever the state's sign points
    with torch.no_grad():
        head.inner.weight.zero_()
        head.inner.bias.zero_()
        head.inner.weight[0, 0] = 100.0
        head.outer.weight[5, 0] = 1.0
        head.outer.bias.copy_(torch.tensor([0.0, 0.0, 50.0, 0.0, 0.0, 0.0]))
    output = head(memory(STATES, REAL))
    # first row: 1 + 2 and 1 + 2, the padding does not count; second: 1 - 1, 1 + 2, 1 + 2
    torch.testing.assert_close(output, torch.tensor([7.0, 7.0]))
    with torch.no_grad():
        head.factor.fill_(2.0)
        head.offset.fill_(-3.0)
    torch.testing.assert_close(head(memory(STATES, REAL)), torch.tensor([9.0, 9.0]))


def test_fertility_gives_the_encoder_no_gradient() -> None:
    states = STATES.clone().requires_grad_()
    head = FertilityLength(2, longest=9, most=2)
    head(memory(states, REAL)).sum().backward()
    assert states.grad is None and head.outer.weight.grad is not None


def test_offsets_by_hand() -> None:
    lengths, scores = offset_beam(
        torch.tensor([[4, 8], [2, 3]]), torch.tensor([[-1.0, -2.0], [-3.0, -4.0]]), 3, 8
    )
    assert lengths.tolist() == [[3, 4, 5, 7, 8, 8], [2, 2, 3, 2, 3, 4]]
    assert scores.tolist() == [[-1, -1, -1, -2, -2, -2], [-3, -3, -3, -4, -4, -4]]


@pytest.mark.parametrize("beam", [0, 2, -1])
def test_an_even_beam_of_offsets_is_refused(beam: int) -> None:
    with pytest.raises(ValueError, match="--length-offset-beam must be odd"):
        offset_beam(torch.tensor([[4]]), torch.zeros(1, 1), beam, 8)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.sampled_from([1, 3, 5]), st.integers(2, 20))
def test_offsets_are_within_bounds(count: int, beam: int, longest: int) -> None:
    lengths = torch.arange(2, 2 + count).clamp(max=longest)[None]
    wide, scores = offset_beam(lengths, torch.zeros(1, count), beam, longest)
    assert wide.shape == scores.shape == (1, count * beam)
    assert int(wide.min()) >= SHORTEST and int(wide.max()) <= longest
    assert torch.equal(wide[:, beam // 2 :: beam], lengths)


def test_the_oracle_counts_bos_and_eos() -> None:
    target = torch.tensor([[0, 5, 6, 2, 1], [0, 5, 6, 7, 2]])
    assert true_length(target, 1).tolist() == [[4], [5]]
    with pytest.raises(ValueError, match="needs references"):
        true_length(None, 1)


@pytest.mark.parametrize("kind", ["pooled", "token", "affine", "fertility"])
def test_padding_on_either_side_gives_the_same_lengths(kind: str) -> None:
    model = support.model(length_predictor=kind, seed=3)
    right = model.lengths(model.encode(support.sources(ROWS)))
    left = model.lengths(model.encode(support.sources(ROWS, left=True)))
    alone = torch.cat([model.lengths(model.encode(support.sources([row]))) for row in ROWS])
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(alone, right, atol=1e-5, rtol=1e-5)


def test_the_length_token_is_no_part_of_the_memory() -> None:
    model = support.model(length_predictor="token")
    memory_ = model.encode(support.sources(ROWS))
    assert memory_.states.shape == (2, 6, 16) and memory_.real.shape == (2, 6)
    assert memory_.cross[0][0].shape == (2, 2, 6, 8)
    assert memory_.length_state.shape == (2, 16)


def generate(model: Any, **options: Any) -> Any:
    target = torch.tensor([[0, 5, 6, 7, 8, 2, 1], [0, 5, 6, 7, 8, 9, 2]])
    made = support.generator([model], **options)
    return made.generate([model], support.sample(ROWS, target))


def test_oracle_lengths_through_the_generator() -> None:
    for kind in ("pooled", "oracle"):
        found = generate(support.model(length_predictor=kind), oracle_length=True)
        assert [len(h[0]["tokens"]) for h in found] == [6, 7]
    wide = generate(support.model(), oracle_length=True, length_offset_beam=3, nbest=3)
    assert [sorted(len(h["tokens"]) for h in row) for row in wide] == [[5, 6, 7], [6, 7, 8]]


def test_an_oracle_model_needs_the_oracle() -> None:
    with pytest.raises(ValueError, match="--oracle-length"):
        generate(support.model(length_predictor="oracle"))


def test_affine_lengths_through_the_generator() -> None:
    found = generate(support.model(length_predictor="affine"))
    assert [len(h[0]["tokens"]) for h in found] == [5, 7]
    with pytest.raises(ValueError, match="one length, not 2"):
        generate(support.model(length_predictor="affine"), iter_decode_with_beam=2)


def test_more_lengths_than_the_model_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="asks for more lengths than the model knows"):
        generate(support.model(), iter_decode_with_beam=99)


def test_relative_biases_follow_the_source_length() -> None:
    """Written out: pooled logits plus the bias of (target length - source length)."""
    model = support.model(length_predictor="relative", seed=3)
    head = model.length_predictor
    with torch.no_grad():
        head.bias.copy_(torch.randn_like(head.bias))
        head.weight.copy_(torch.randn_like(head.weight))
    rows = support.sample([[5, 6, 7], [8], [4, 5, 6, 7, 8, 9]])["net_input"]["src_tokens"]
    memory = model.encode(rows)
    found = model.lengths(memory)
    for row in range(3):
        real = memory.real[row]
        mean = memory.states[row][real].mean(0)
        equal = int(real.sum()) + 1
        for length in range(head.longest + 1):
            expected = head.weight[length] @ mean + head.bias[length - equal + head.longest]
            assert float(found[row, length]) == pytest.approx(float(expected), abs=1e-4)


def test_an_untrained_relative_head_asks_for_lengths_around_the_source() -> None:
    model = support.model(length_predictor="relative", seed=3)
    torch.nn.init.zeros_(model.length_predictor.weight)
    rows = support.sample([[5, 6, 7, 8, 9], [8, 4]])["net_input"]["src_tokens"]
    lengths, _ = model.length_predictor.candidates(model.lengths(model.encode(rows)), 3)
    # Words and EOS on both sides, BOS in the target besides.
    assert sorted(lengths[0].tolist()) == [6, 7, 8]
    assert sorted(lengths[1].tolist()) == [3, 4, 5]
