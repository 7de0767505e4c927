"""fairseq-gmlm score, on texts and on translations."""

import json
from itertools import permutations

import lm_support as lm
import pytest
import torch

TEXTS = "anna sees a black cat .\na brown dog sees otto .\n"


def score(*arguments, stdin=TEXTS):
    return lm.on_model("score", *arguments, stdin=stdin)


def report(*arguments, stdin=TEXTS):
    code, out, err = score("--format", "json", *arguments, stdin=stdin)
    assert (code, err) == (0, "")
    return json.loads(out)


def model():
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(lm.checkpoint())], arg_overrides={"data": str(lm.data_bin())}
    )
    return models[0].eval(), task


def by_hand(net, vocabulary, words, order):
    """log p in an order by one pass for each token."""
    shown = torch.tensor([[vocabulary.bos, *[vocabulary.mask] * len(words), vocabulary.eos]])
    total = 0.0
    banned = net.banned[net.banned != vocabulary.unk]
    for place in order:
        with torch.no_grad():
            logits = net(shown)[0].double().index_fill(-1, banned, -torch.inf)
        total += float(logits.log_softmax(-1)[0, place + 1, words[place]])
        shown[0, place + 1] = words[place]
    return total


def test_log_likelihoods_are_those_of_one_pass_for_each_token():
    from fairseq_gmlm.data.subwords import Segmenter

    net, task = model()
    words = [
        [task.dictionary.index(piece) for piece in Segmenter(lm.codes())(line.split())]
        for line in TEXTS.splitlines()
    ]
    found = report("--measures", "left-to-right", "right-to-left", "--per-line")
    for line, tokens in zip(found["lines"], words):
        expected = by_hand(net, task.vocabulary, tokens, range(len(tokens)))
        assert abs(line["left-to-right"] - expected) < 1e-4
        expected = by_hand(net, task.vocabulary, tokens, reversed(range(len(tokens))))
        assert abs(line["right-to-left"] - expected) < 1e-4
        assert line["tokens"] == len(tokens)
        assert line["words"] == 6
    totals = found["measures"]["left-to-right"]
    assert abs(totals["log_likelihood"] - sum(x["left-to-right"] for x in found["lines"])) < 1e-9
    assert (found["texts"], found["words"]) == (2, 12)
    assert found["tokens"] == sum(map(len, words))
    per_token = -totals["log_likelihood"] / found["tokens"]
    assert abs(torch.tensor(totals["perplexity_per_token"]).log() - per_token) < 1e-4


def test_a_trained_model_finds_the_language_likelier_than_noise():
    good = report("--measures", "left-to-right")["measures"]["left-to-right"]
    bad = report("--measures", "left-to-right", stdin="a a sees . anna .\ncat . . a a otto\n")
    # 5 bits tell the sentences apart: p = 1/2 (form) * 1/4 (name) * 1/4 (animal).
    assert good["log_likelihood"] > 2 * 1.5 * torch.tensor(1 / 32).log()
    assert bad["measures"]["left-to-right"]["log_likelihood"] < 2 * good["log_likelihood"]


def test_random_orders_and_bound_agree_with_enumeration():
    text = "otto sees a cat .\n"
    found = report(
        "--measures", "exact", "random", "bound", "--orders", 40, "--bound-samples", 400,
        stdin=text,
    )["measures"]  # fmt: skip
    exact = found["exact-mean"]["log_likelihood"]
    assert found["exact-mixture"]["log_likelihood"] >= exact
    for name, draws in (("random", 40), ("bound", 400)):
        error = found[name]["log_likelihood_standard_error"]
        assert found[name]["draws"] == draws
        assert error > 0 and abs(found[name]["log_likelihood"] - exact) < 4 * error
        assert found[name]["perplexity_per_token_standard_error"] > 0


def test_an_order_from_a_file(tmp_path):
    net, task = model()
    words = [task.dictionary.index(w) for w in ("otto", "sees", "a")]
    path = tmp_path / "orders"
    for order in permutations(range(3)):
        path.write_text(" ".join(str(i + 1) for i in order) + "\n")
        found = report("--measures", "file", "--order-file", path, stdin="otto sees a\n")
        expected = by_hand(net, task.vocabulary, words, order)
        assert abs(found["measures"]["file"]["log_likelihood"] - expected) < 1e-4
    code, _, err = score("--measures", "file", "--order-file", path, stdin="otto sees\n")
    assert code == 1
    assert "standard input, line 1, column 1: --order-file has no order of 2 tokens" in err


@pytest.mark.parametrize("budget", [1, 50, 5000])
def test_packing_changes_nothing(budget):
    names = ["left-to-right", "random", "pseudo", "bound"]
    first = report("--measures", *names)["measures"]
    second = report("--measures", *names, "--max-tokens", budget)["measures"]
    for name in names:
        assert abs(first[name]["log_likelihood"] - second[name]["log_likelihood"]) < 1e-4


def test_the_split_of_a_data_bin_and_its_text_score_the_same():
    text = (lm.folder() / "test.raw").read_text()
    found = report("--gen-subset", "test", "--measures", "left-to-right", stdin="")
    direct = report("--measures", "left-to-right", stdin=text)
    assert (found["texts"], found["tokens"], found["words"]) == (
        direct["texts"], direct["tokens"], direct["words"],
    )  # fmt: skip
    mine, other = (r["measures"]["left-to-right"]["log_likelihood"] for r in (found, direct))
    assert abs(mine - other) < 1e-3


def test_text_output():
    code, out, _ = score("--measures", "pseudo", "--per-line")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split("\t") == ["number", "tokens", "words", "pseudo"]
    assert lines[3].startswith("2 texts, ")
    assert lines[4].startswith("pseudo: log_likelihood -")


def test_faults_are_told_with_line_and_column_and_the_others_done():
    long = " ".join(["otto"] * 31)
    text = f"anna sees a black cat .\notto ßsees a dog .\n{long}\na brown dog sees otto .\n"
    code, out, err = score("--measures", "left-to-right", stdin=text)
    assert code == 1
    assert out.startswith("2 texts, ")
    messages = err.splitlines()
    assert messages[0].startswith("standard input, line 2, column 6: 'ß")
    assert messages[1].startswith(
        "standard input, line 3, column 151: here begins token 31 of 31, and the model takes 30"
    )
    code, out, err = score("--measures", "left-to-right", "--keep-unknown", stdin="otto ß a dog\n")
    assert (code, err) == (0, "") and out.startswith("1 texts, 4 tokens, 4 words")


def test_exact_leaves_long_texts_out():
    code, out, err = score("--measures", "exact", stdin="otto " * 13 + "\notto sees\n")
    assert code == 1 and out.startswith("1 texts, ")
    assert "line 1, column 1: 13 tokens, and the measure exact takes 12" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--orders", 0], "--orders must be at least 1, not 0"),
        (["--measures", "file"], "the measure file and --order-file FILE belong together"),
        (["--gen-subset", "test", "--input", "x"], "--gen-subset takes texts from the data-bin"),
        (["--gen-subset", "nothing"], "no split nothing in"),
        (["--input", "nowhere"], "no such file: nowhere"),
        (["--source", "x"], "a language model has no source"),
    ],
)
def test_bad_options(arguments, message):
    code, out, err = score(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_translations_are_scored_given_their_sources(toy_bin, toy_raw, short_run, tmp_path):
    base = ["score", "--path", short_run / "checkpoint_last.pt", "--data", toy_bin, "--cpu",
            "--format", "json", "--measures", "left-to-right", "pseudo", "--per-line"]  # fmt: skip
    source, target = tmp_path / "a", tmp_path / "b"
    for path, name in ((source, "test.a"), (target, "test.b")):
        lines = (toy_raw / name).read_text().splitlines()[:5]
        path.write_text("".join(line + "\n" for line in lines))
    code, out, err = lm.command(*base, "--input", target, "--source", source)
    assert (code, err) == (0, "")
    given = json.loads(out)["lines"]
    subset = json.loads(lm.command(*base, "--gen-subset", "test")[1])["lines"]
    for mine, other in zip(given, subset):
        assert mine["left-to-right"] == pytest.approx(other["left-to-right"], abs=1e-4)
        assert mine["pseudo"] == pytest.approx(other["pseudo"], abs=1e-4)
    backwards = source.read_text().splitlines()[::-1]
    source.write_text("".join(line + "\n" for line in backwards))
    moved = json.loads(lm.command(*base, "--input", target, "--source", source)[1])["lines"]
    assert moved[0]["left-to-right"] != pytest.approx(given[0]["left-to-right"], abs=1e-3)
    source.write_text(backwards[0] + "\n")
    code, _, err = lm.command(*base, "--input", target, "--source", source)
    assert code == 2 and "--source has 1 lines" in err
    code, _, err = lm.command(*base, "--input", target)
    assert code == 2 and "a translation model needs --source FILE" in err
