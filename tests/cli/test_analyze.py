"""Error modes from the command line, beside the same counts made here."""

import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any, Dict, List

import pytest

from fairseq_gmlm.cli.main import main


@pytest.fixture(scope="module")
def found(
    toy_data: Path, toy_teacher: Path, toy_gmlm: Path, tmp_path_factory: pytest.TempPathFactory
) -> Dict[str, Any]:
    """A whole analysis, and where its files are."""
    folder = tmp_path_factory.mktemp("modes")
    options = folder / "options.yaml"
    options.write_text("iter_decode_max_iter: 9\niter_decode_with_beam: 2\n", "utf-8")
    status = main(
        [
            *["analyze", "--path", str(toy_gmlm), "--data", str(toy_data), "--cpu"],
            *["--teacher", str(toy_teacher), "--nbest", "3", "--ngrams", "2", "--bootstrap", "50"],
            *["--options", str(options), "--set", "iter-decode-max-iter=2"],
            *["--json", str(folder / "modes.json"), "--plots", str(folder / "plots")],
        ]
    )
    assert status == 0
    return {**json.loads((folder / "modes.json").read_text("utf-8")), "folder": folder}


def generated(toy_data: Path, toy_gmlm: Path) -> List[List[str]]:
    """Outputs of fairseq-generate with the same options, in the data's order."""
    from helpers.commands import call, tagged

    printed = call(
        "generate", toy_data, "--path", toy_gmlm, "--task", "translation_gmlm", "--cpu",
        "--iter-decode-max-iter", 2, "--iter-decode-with-beam", 2,
        "--source-lang", "en", "--target-lang", "de",
    )  # fmt: skip
    hypotheses = tagged(printed, "H")
    return [hypotheses[n].split("\t", 1)[1].split() for n in sorted(hypotheses)]


def test_outputs_are_those_of_fairseq_generate(found, toy_data: Path, toy_gmlm: Path) -> None:
    outputs = generated(toy_data, toy_gmlm)
    repeats = sum(a == b for tokens in outputs for a, b in itertools.pairwise(tokens))
    stutter = found["texts"]["output"]["stutter"]
    assert (stutter["found"], stutter["total"]) == (repeats, sum(map(len, outputs)))
    assert stutter["low"] <= stutter["value"] <= stutter["high"]
    assert found["sentences"] == len(outputs) == 20
    assert found["options"] == {"iter_decode_max_iter": 2, "iter_decode_with_beam": 2}
    assert found["mask_leftovers"] == 0 and found["passes"] <= 3


def test_every_measure_is_there(found) -> None:
    names = {
        "stutter", "repeated_1grams", "repeated_2grams", "dropped_words", "added_words",
        "length_ratio", "length_error", "empty", "absent_bigrams", "mixed_bigrams",
        "teacher_agreement", "teacher_surprise", "same_as_teacher",
    }  # fmt: skip
    assert set(found["texts"]) == {"output", "references", "teacher"}
    assert all(set(text) == names for text in found["texts"].values())
    assert found["texts"]["references"]["length_ratio"]["value"] == 1
    assert found["texts"]["teacher"]["absent_bigrams"]["value"] == 0
    assert found["texts"]["teacher"]["same_as_teacher"]["value"] == 1
    # The teacher is trained, the student hardly.
    surprise = {name: text["teacher_surprise"]["value"] for name, text in found["texts"].items()}
    assert surprise["teacher"] < surprise["output"]


def test_passes_and_attention(found) -> None:
    passes = found["per_pass"]
    assert [p["number"] for p in passes] == [1, 2, 3]
    assert passes[0]["running"] == 20 and passes[0]["predicted"]["value"] == 1
    final = found["texts"]["output"]["stutter"]
    assert passes[-1]["stutter_after"] == final
    assert passes[-1]["mixed_bigrams"] == found["texts"]["output"]["mixed_bigrams"]
    assert set(found["dependence"]) == {"all", "1", "2", "3"}
    everything, first = found["dependence"]["all"], found["dependence"]["1"]
    assert first["stutter"]["total"] == passes[0]["stutter_before"]["found"]
    # In the first pass every pair of neighbours is predicted together: one less than tokens.
    pairs = first["stutter"]["total"] + first["adjacent"]["total"]
    assert pairs == passes[0]["stutter_before"]["total"] - found["sentences"]
    assert everything["distant"]["total"] >= first["distant"]["total"] > 0


def test_figures(found) -> None:
    names = sorted(path.name for path in (found["folder"] / "plots").iterdir())
    assert names == [
        f"{name}.{kind}"
        for name in ("dependence", "mixed_modes", "stutter")
        for kind in ("png", "svg")
    ]
    assert (found["folder"] / "plots" / "stutter.png").read_bytes().startswith(b"\x89PNG")


def test_an_autoregressive_system_has_outputs_only(
    toy_data: Path, toy_teacher: Path, tmp_path: Path, capsys: Any
) -> None:
    line = [
        *["analyze", "--path", str(toy_teacher), "--data", str(toy_data), "--cpu"],
        *["--set", "beam=2", "--set", "max_len_b=10", "--sentences", "5", "--no-alignment"],
    ]
    assert main([*line, "--json", str(tmp_path / "modes.json")]) == 0
    found = json.loads((tmp_path / "modes.json").read_text("utf-8"))
    assert found["sentences"] == 5 and found["per_pass"] == [] and found["dependence"] == {}
    assert "dropped_words" not in found["texts"]["output"]
    assert "references" in capsys.readouterr().out
    assert main([*line, "--plots", str(tmp_path / "plots")]) == 2
    assert "keeps no history" in capsys.readouterr().err


def test_training_data(toy_data: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "data.json"
    line = ["analyze", "--data-only", str(toy_data), "--max-pairs", "300", "--json", str(path)]
    assert main(line) == 0
    (found,) = json.loads(path.read_text("utf-8")).values()
    # As many words as the source has; the entropy is below that of twelve words drawn evenly,
    # though the reversed order is what the aligner's prior expects least.
    assert found["sentences"] == 300 and found["source_types"] == found["target_types"] == 12
    assert found["length_ratio"] == 1 and found["length_ratio_deviation"] == 0
    assert 0 < found["entropy_by_token"] < math.log2(12) - 1
    assert "entropy of target given source word" in capsys.readouterr().out
    again = shutil.copytree(toy_data, tmp_path / "again")
    assert main(["analyze", "--data-only", str(toy_data), str(again)]) == 0
    assert "last / first" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--set", "beams=4"], "no decoding option is called 'beams'"),
        (["--set", "beam"], "--set beam: expected name=value"),
        (["--set", "nbest=9"], "--nbest 9 is more than"),
        (["--options", "none.yaml"], "--options none.yaml"),
        (["--gen-subset", "nowhere"], "--gen-subset nowhere"),
        (["--teacher", "none.pt"], "--teacher: no such file: none.pt"),
        (["--nbest", "0"], "--nbest must be at least 1, not 0"),
        (["--attention-layers", "-1"], "--attention-layers must be at least 0, not -1"),
        (["--data-only", "x"], "--path belongs to the analysis of a system"),
    ],
)
def test_faults_are_named(more, message: str, toy_data: Path, toy_gmlm: Path, capsys: Any) -> None:
    line = ["analyze", "--path", str(toy_gmlm), "--data", str(toy_data), "--no-alignment", "--cpu"]
    assert main([*line, *more]) == 2
    assert message in capsys.readouterr().err


def test_a_path_or_data_is_needed(capsys: Any) -> None:
    assert main(["analyze"]) == 2
    assert "--path is missing" in capsys.readouterr().err


def test_a_teacher_cannot_be_traced(toy_data: Path, toy_teacher: Path, capsys: Any) -> None:
    assert main(["trace", "--path", str(toy_teacher), "--data", str(toy_data), "--ids", "0"]) == 2
    assert "keeps no history of its passes" in capsys.readouterr().err
