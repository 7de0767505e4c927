"""The hub interface: from_pretrained(...).translate(...)."""

from pathlib import Path
from typing import Any

import pytest
from helpers import toy
from helpers.commands import Hypothesis, call, hypotheses, same, tagged

from fairseq_gmlm.models.gmlm_transformer import GMLMTransformerModel


@pytest.fixture(scope="module")
def hub(toy_bin: Path, short_run: Path) -> Any:
    """A model still wrong about much."""
    return GMLMTransformerModel.from_pretrained(
        str(short_run), "checkpoint_last.pt", data_name_or_path=str(toy_bin)
    )


def test_hypotheses_and_scores_of_generate(hub: Any, toy_bin: Path, short_run: Path) -> None:
    printed = call(
        "generate", *toy.decoding(toy_bin, short_run / "checkpoint_last.pt"), "--batch-size", 50,
        "--iter-decode-max-iter", 3, "--iter-decode-with-beam", 3, "--nbest", 2,
    )  # fmt: skip
    expected, sources = hypotheses(printed), tagged(printed, "S")
    numbers = sorted(expected)[:30]
    tokens = [hub.encode(sources[i]) for i in numbers]
    options = {"iter_decode_max_iter": 3, "iter_decode_with_beam": 3, "nbest": 2}
    batched = hub.generate(tokens, **options)
    alone = [hub.generate([t], **options)[0] for t in tokens[:5]]
    for found in (batched, alone):
        # Printed scores are in base 2.
        printed_like = {
            numbers[i]: [
                Hypothesis(float(h["score"]) / 0.6931471805599453, hub.decode(h["tokens"]))
                for h in hypothesis
            ]
            for i, hypothesis in enumerate(found)
        }
        same(printed_like, {i: expected[i] for i in printed_like})


def test_translate_takes_one_sentence_or_many(toy_bin: Path, toy_run: Path) -> None:
    solved = GMLMTransformerModel.from_pretrained(
        str(toy_run), "checkpoint_last.pt", data_name_or_path=str(toy_bin)
    )
    assert solved.translate("copy aa bb cc") == "aa bb cc"
    assert solved.translate(["reverse aa bb cc", "copy dd aa", ""]) == ["cc bb aa", "dd aa", ""]


def test_options_are_keyword_arguments(hub: Any) -> None:
    tokens = [hub.encode("copy aa bb cc")]
    found = hub.generate(
        tokens, decode_strategy="refine", decode_start="random", parallel_decodes=3, nbest=3
    )
    assert len(found[0]) == 3
    with pytest.raises(ValueError, match="--nbest 2 is more than the 1 candidates"):
        hub.generate(tokens, nbest=2)
    with pytest.raises(ValueError, match="prefix_allowed_tokens_fn is not supported"):
        hub.generate(tokens, prefix_allowed_tokens_fn=lambda *_: [])


def test_sources_longer_than_the_model_knows(hub: Any) -> None:
    assert len(hub.translate("copy " + "aa " * 500).split()) > 0
