"""Attention maps of a chosen pass, and alignments."""

from typing import Any

import padir_support as support
import pytest
import torch

from fairseq_gmlm.decoding.attention import hard_alignment, soft_alignment

ROWS = [[4, 5, 6], [7, 8, 9, 10, 5]]


@pytest.fixture(scope="module")
def model() -> Any:
    return support.model(seed=8)


def generator(model: Any, **options: Any) -> Any:
    values = {"decode_strategy": "refine", "decode_start": "random", "iter_decode_max_iter": 3}
    made = support.generator([model], **{**values, **options})
    made.export_attention = not options.get("print_alignment")
    return made


def maps(model: Any, row: list, shown: torch.Tensor) -> Any:
    """The model's own maps for one canvas."""
    memory = model.encode(support.sources([row]))
    return model.decode(shown[None], memory, need_weights=True)


@pytest.mark.parametrize("chosen", [1, 2, 0])
def test_the_maps_are_those_of_the_chosen_pass(model: Any, chosen: int) -> None:
    shown = []
    made = generator(model, attention_pass=chosen, iter_decode_force_max_iter=True)
    made.before_pass = lambda state, step: shown.append(state.tokens.clone()) or state
    found = made.generate([model], support.sample(ROWS))
    for number, (row, (hypothesis,)) in enumerate(zip(ROWS, found)):
        size = len(hypothesis["tokens"])
        own = maps(model, row, shown[chosen - 1 if chosen else -1][number][:size])
        for name in ("self_attention", "cross_attention"):
            torch.testing.assert_close(
                hypothesis[name], getattr(own, name)[0], atol=1e-5, rtol=1e-4
            )
        assert hypothesis["self_attention"].shape == (2, 2, size, size)
        assert hypothesis["cross_attention"].shape == (2, 2, size, len(row) + 1)
        expected = own.cross_attention[0, -1].mean(0).t()
        torch.testing.assert_close(hypothesis["attention"], expected, atol=1e-5, rtol=1e-4)


def test_a_row_that_stops_early_keeps_its_last_maps(model: Any) -> None:
    shown = {}

    def note(state, step):
        for row, tokens in zip(state.rows.tolist(), state.tokens):
            shown[row] = tokens.clone()
        return state

    made = generator(model, iter_decode_max_iter=12)
    made.before_pass = note
    found = made.generate([model], support.sample(ROWS))
    assert found[0][0]["passes"] != found[1][0]["passes"]
    for number, (row, (hypothesis,)) in enumerate(zip(ROWS, found)):
        own = maps(model, row, shown[number][: len(hypothesis["tokens"])])
        torch.testing.assert_close(
            hypothesis["cross_attention"], own.cross_attention[0], atol=1e-5, rtol=1e-4
        )


def test_maps_do_not_change_the_output_and_are_left_out_unless_asked(model: Any) -> None:
    made = generator(model)
    with_maps = made.generate([model], support.sample(ROWS))
    made.export_attention = False
    without = made.generate([model], support.sample(ROWS))
    for (a,), (b,) in zip(with_maps, without):
        assert a["tokens"].tolist() == b["tokens"].tolist()
        assert b["attention"] is None and "self_attention" not in b


def test_weights_sum_to_one_over_real_tokens(model: Any) -> None:
    for (hypothesis,) in generator(model).generate([model], support.sample(ROWS)):
        for name in ("self_attention", "cross_attention"):
            total = hypothesis[name].sum(-1)
            torch.testing.assert_close(total, torch.ones_like(total))


def test_dropped_positions_are_dropped_from_the_maps(model: Any) -> None:
    words = support.task(words=3)
    small = support.model(words, seed=2)
    made = generator(small, remask_stutter=True, remasking="initial", decode_start="mask")
    dropped = 0
    for (hypothesis,) in made.generate([small], support.sample([[4, 5, 6], [6, 5], [4]])):
        size = len(hypothesis["tokens"])
        assert hypothesis["self_attention"].shape[-2:] == (size, size)
        dropped += float(hypothesis["self_attention"].sum(-1).min()) < 0.999
    assert dropped > 0


def test_hard_alignment_by_hand() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.9, 0.05, 0.05]])
    words = torch.tensor([False, True, True, False])  # BOS, two words, EOS
    assert hard_alignment(weights, words) == [(1, 0), (0, 1)]
    assert hard_alignment(weights, torch.zeros(4, dtype=torch.bool)) == []


def test_soft_alignment_is_printed_as_fairseq_prints_it() -> None:
    assert soft_alignment(torch.tensor([[0.25, 0.75]])) == [["0.250000", "0.750000"]]


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments_in_hypotheses(model: Any, kind: str) -> None:
    made = generator(model, print_alignment=kind, attention_pass=1)
    for row, (hypothesis,) in zip(ROWS, made.generate([model], support.sample(ROWS))):
        count = len(hypothesis["tokens"]) - 2
        weights = hypothesis["attention"].t()
        if kind == "hard":
            expected = weights[1:-1, : len(row)].argmax(1).tolist()
            assert hypothesis["alignment"] == list(zip(expected, range(count)))
        else:
            assert len(hypothesis["alignment"]) == count + 1  # words and EOS
            assert hypothesis["alignment"][0] == [f"{w:.6f}" for w in weights[1].tolist()]


def test_left_padding_gives_the_same_alignment(model: Any) -> None:
    made = generator(model, print_alignment="hard")
    right = made.generate([model], support.sample(ROWS))
    batch = support.sample(ROWS)
    batch["net_input"]["src_tokens"] = support.sources(ROWS, left=True)
    left = made.generate([model], batch)
    assert [h[0]["alignment"] for h in left] == [h[0]["alignment"] for h in right]
