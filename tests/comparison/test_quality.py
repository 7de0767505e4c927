"""Scores and text."""

from pathlib import Path

import pytest
from sacrebleu import corpus_bleu, corpus_chrf

from fairseq_gmlm.comparison import quality
from fairseq_gmlm.errors import UserError

HYPOTHESES = ["the cat sat on the mat .", "hello there big world"]
REFERENCES = ["the cat sat on a mat .", "hello big world"]


def test_scores_are_sacrebleus() -> None:
    found = quality.score(HYPOTHESES, REFERENCES)
    bleu = corpus_bleu(HYPOTHESES, [REFERENCES])
    assert found.bleu == pytest.approx(bleu.score)
    assert found.chrf == pytest.approx(corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert found.length_ratio == pytest.approx(11 / 10)
    assert found.brevity_penalty == bleu.bp == 1.0
    assert found.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_short_hypotheses_are_penalised() -> None:
    found = quality.score(["the cat sat on"], ["the cat sat on a mat ."])
    assert found.length_ratio == pytest.approx(4 / 7)
    assert found.brevity_penalty < 1


def test_stutter_rate_counts_repeats_of_the_left_neighbour() -> None:
    assert quality.stutter_rate([["a", "a", "b"], ["c", "c", "c"], []]) == pytest.approx(3 / 6)
    assert quality.stutter_rate([[]]) == 0.0


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["ab@@", "c", "d"], "abc d"),
        (["d", "ab@@"], "d ab"),
        ([], ""),
    ],
)
def test_subwords_are_joined(tokens, text) -> None:
    assert quality.join_subwords(tokens) == text


def test_detokenizer_undoes_moses() -> None:
    detokenize = quality.Detokenizer("de")
    tokens = ["Das", "ist", "R@@", "&amp;", "D", "&quot;", "gut", "&quot;", "."]
    assert detokenize(tokens) == 'Das ist R& D "gut".'
    assert detokenize([]) == ""


def test_references_keep_odd_lines(tmp_path: Path) -> None:
    path = tmp_path / "test.raw.de"
    path.write_bytes("a\u2028b\n\nc\x0bd\n".encode())
    assert quality.read_references(path, 3) == ["a\u2028b", "", "c\x0bd"]
    with pytest.raises(UserError, match="has 3 lines for 4 sentences"):
        quality.read_references(path, 4)
    with pytest.raises(UserError, match="no references at"):
        quality.read_references(tmp_path / "other", 3)
