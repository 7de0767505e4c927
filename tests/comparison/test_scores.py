"""Scores beside sacreBLEU's own: tokenised BLEU, significance, COMET, by source length."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from sacrebleu import corpus_bleu

from fairseq_gmlm.comparison.comet import CometScorer
from fairseq_gmlm.comparison.length_buckets import buckets, by_source_length
from fairseq_gmlm.comparison.rows import mean_and_deviation
from fairseq_gmlm.comparison.significance import p_values
from fairseq_gmlm.comparison.tokenised import (
    split_compounds,
    tokenised_bleu,
    tokenised_references,
)
from fairseq_gmlm.errors import UserError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a well-known word", "a well ##AT##-##AT## known word"),
        ("x-y-z", "x ##AT##-##AT## y-z"),  # the letter between is used up
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a - b -c d-", "a - b -c d-"),
        ("a @-@ b", "a @ ##AT##-##AT## @ b"),
    ],
)
def test_compounds_are_split(line: str, expected: str) -> None:
    assert split_compounds(line) == expected


def test_tokenised_bleu_reads_words_as_they_are() -> None:
    hypotheses = [["a", "well-@@", "known", "word", "in", "it", "."], ["one", "&apos;s", "own"]]
    references = ["a well-known word in it .", "one &apos;s house"]
    score, signature = tokenised_bleu(hypotheses, references)
    expected = corpus_bleu(
        ["a well ##AT##-##AT## known word in it .", "one &apos;s own"],
        [["a well ##AT##-##AT## known word in it .", "one &apos;s house"]],
        tokenize="none",
        smooth_method="none",
        force=True,
    )
    assert score == pytest.approx(expected.score) and 0 < score < 100
    assert "tok:none|smooth:none" in signature


def test_references_become_words(tmp_path: Path) -> None:
    raw = ["It's a well-known word."]
    cut = tokenised_references(None, str(tmp_path), "test", "en", raw)
    assert cut == (["It &apos;s a well @-@ known word ."], "sacremoses")
    (tmp_path / "test.tok.en").write_text("as it was\n", "utf-8")
    beside = tokenised_references(None, str(tmp_path), "test", "en", raw)
    assert beside == (["as it was"], "as prepared")
    own = tmp_path / "own"
    own.write_text("mine\n", "utf-8")
    assert tokenised_references(str(own), str(tmp_path), "test", "en", raw)[0] == ["mine"]
    with pytest.raises(UserError, match=r"no tokenised_references at .*none"):
        tokenised_references(str(tmp_path / "none"), str(tmp_path), "test", "en", raw)


def test_p_values_tell_equal_from_different() -> None:
    references = [f"the {word} sat on the old mat number {word}" for word in "abcdefghijklmnop"]
    worse = [line.replace("sat on the", "on") for line in references]
    found = p_values(
        ("base", references), [("same", references), ("worse", worse)], references, samples=200
    )
    assert list(found) == ["same", "worse"]
    assert found["same"] == 1.0
    assert found["worse"] == pytest.approx(1 / 201)
    assert p_values(("base", references), [], references, 200) == {}


class FakeComet(ModuleType):
    """The parts of the package that are used."""

    def download_model(self, name: str) -> str:
        if name == "nobody/nothing":
            raise OSError("no route to the hub\nand more")
        return f"/cache/{name}"

    def load_from_checkpoint(self, path: str) -> SimpleNamespace:
        def predict(triples, batch_size, gpus, progress_bar):
            assert [sorted(each) for each in triples] == [["mt", "ref", "src"]] * len(triples)
            print("noise")
            same = [each["mt"] == each["ref"] for each in triples]
            return SimpleNamespace(system_score=sum(same) / len(same))

        return SimpleNamespace(predict=predict, path=path)


def test_comet_scores_triples(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setitem(sys.modules, "comet", FakeComet("comet"))
    scorer = CometScorer("some/model")
    assert scorer.model.path == "/cache/some/model"
    assert scorer(["s", "t"], ["a", "b"], ["a", "c"]) == 0.5
    assert capsys.readouterr().out == ""
    local = tmp_path / "model.ckpt"
    local.write_bytes(b"")
    assert CometScorer(str(local)).model.path == str(local)
    with pytest.raises(UserError, match=r"'comet: nobody/nothing' .*\(no route to the hub\)"):
        CometScorer("nobody/nothing")


def test_comet_names_its_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(UserError, match=r"fairseq-gmlm\[comet\]"):
        CometScorer("some/model")


def test_buckets_keep_equal_lengths_together() -> None:
    assert buckets([5, 1, 2, 2, 2, 9], 3) == [[1, 2, 3, 4], [0, 5]]
    assert buckets([4, 3, 2, 1], 2) == [[2, 3], [0, 1]]
    assert buckets([7, 7], 4) == [[0, 1]]


def test_scores_by_length_are_those_of_the_parts() -> None:
    sizes = [2, 9, 3]
    references = ["the cat sat on the mat", "a b c d e f", "the dog lay on the floor"]
    good, bad = references, ["the cat sat on the hat", "x", "the dog lay on a floor"]
    short, long = by_source_length([[0, 2], [1]], sizes, [good, bad], references, [(2, 0.5)])
    part = [references[0], references[2]]
    expected = (100 + corpus_bleu([bad[0], bad[2]], [part]).score) / 2
    assert short["bleu"] == pytest.approx(expected)
    assert (short["shortest"], short["longest"], short["sentences"]) == (2, 3, 2)
    assert (short["latency_ms"], short["timed"]) == (500.0, 1)
    assert (long["latency_ms"], long["timed"]) == (None, 0)


def test_deviation_is_of_a_sample() -> None:
    assert mean_and_deviation([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_and_deviation([4.0]) == (4.0, None)
