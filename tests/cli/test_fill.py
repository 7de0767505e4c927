"""fairseq-gmlm fill on a language whose answers are known."""

import lm_support as lm
import pytest


def fill(stdin, *arguments):
    return lm.on_model("fill", *arguments, stdin=stdin)


def pieces(word):
    """Number of subwords of a word."""
    from fairseq_gmlm.data.subwords import Segmenter

    return len(Segmenter(lm.codes())(word.split()))


def test_blanks_are_filled_with_what_fits():
    templates = [
        f"anna sees a ___{{{pieces(colour)}}} {animal} ." for animal, colour in lm.COLOURS.items()
    ]
    code, out, err = fill("\n".join(templates) + "\n")
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"anna sees a {c} {a} ." for a, c in lm.COLOURS.items()]


def test_of_several_lengths_the_best_is_taken():
    code, out, _ = fill("otto sees a ___{1,5} parrot .\notto sees a ___{1,5} dog .\n")
    assert code == 0
    assert out.splitlines() == ["otto sees a colourful parrot .", "otto sees a brown dog ."]


def test_given_text_is_never_changed():
    template = "a   white cat ___{1}  maria ."
    code, out, _ = fill(f"{template}\n")
    assert code == 0
    assert out.startswith("a   white cat ") and out.endswith("  maria .\n")


@pytest.mark.parametrize("strategy", ["any-order", "easy-first", "threshold", "gibbs",
                                      "mask-predict", "refine"])  # fmt: skip
def test_every_strategy_fills(strategy):
    extra = ["--decode-start", "random"] if strategy == "refine" else []
    colour = lm.COLOURS["swan"]
    template = f"anna sees a ___{{{pieces(colour)}}} swan .\n"
    code, out, _ = fill(template, "--decode-strategy", strategy, *extra)
    assert (code, out) == (0, "anna sees a white swan .\n")


@pytest.mark.parametrize("order", ["left-to-right", "right-to-left", "random", "surest-first"])
def test_texts_of_a_chosen_length_from_nothing_in_every_order(order):
    sample = ["--sampling", "--temperature", 0.7]
    code, out, _ = fill("___{7}\n" * 12, "--decode-order", order, *sample)
    lines = out.splitlines()
    assert code == 0 and len(lines) == 12
    assert len(set(lines)) > 1  # a line's draws depend on its number
    assert all("@@" not in line and "<" not in line for line in lines)
    again = fill("___{7}\n" * 12, "--decode-order", order, *sample, "--max-tokens", 20)[1]
    assert again == out  # whatever the batches
    other = fill("___{7}\n" * 12, "--decode-order", order, *sample, "--seed", 2)[1]
    assert other != out


def test_orders_from_a_file(tmp_path):
    path = tmp_path / "orders"
    path.write_text("2 1\n1 2 3\n")
    arguments = ["--decode-order", "file", "--decode-order-file", path]
    code, out, _ = fill("___{2} sees anna .\n", *arguments)
    assert code == 0 and out.endswith(" sees anna .\n")
    code, _, err = fill("___{4} sees anna .\n", *arguments)
    assert code == 2
    assert "--decode-order-file has no order of 4 positions (it has 2, 3)" in err


def test_several_completions_have_ranks_and_scores():
    code, out, _ = fill("___{1,4} sees a black cat .\nanna .\n", "--nbest", 3)
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["1", "3"], ["2", "1"]]
    assert rows[0][3].split()[0] in lm.NAMES
    scores = [float(row[2]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    assert len({row[3] for row in rows[:3]}) == 3
    assert rows[3] == ["2", "1", "0.0000", "anna ."]


def test_bad_templates_are_told_with_line_and_column_and_the_others_done():
    lines = [
        "anna sees a ___{1,4} dog .",
        "anna sees a ___{x} dog .",
        "anna ßees a ___ dog .",
        "",
        "anna sees a dog___ .",
        "anna sees a ___{40} dog .",
        "anna sees a ___{1,99} ___{1,99} dog .",
        "otto sees a ___{1,4} dog .",
    ]
    code, out, err = fill("\n".join(lines) + "\n")
    assert code == 1
    found = out.split("\n")
    assert found[0] == "anna sees a brown dog ." and found[7] == "otto sees a brown dog ."
    assert found[1:7] == [""] * 6 and len(found) == 9
    messages = err.splitlines()
    assert messages[0].startswith(
        "standard input, line 2, column 16: a blank's length is {3} or {2,5}, found '{x}'"
    )
    assert messages[1].startswith("standard input, line 3, column 6: 'ß")
    assert "is not in the model's dictionary" in messages[1]
    assert messages[2].startswith("standard input, line 5, column 16: a blank stands for whole")
    assert "line 6, column 13: the text up to here may have" in messages[3]
    assert "more than the model's 30" in messages[3]
    assert "line 7, column" in messages[4]
    assert len(messages) == 5


def test_bytes_that_are_no_text():
    code, out, err = fill("anna sees a ___{1,4} dog .\nab\udcff ___\n")
    assert (code, out) == (1, "anna sees a brown dog .\n\n")
    assert err == "standard input, line 2, column 3: not UTF-8 text\n"


def test_unknown_words_can_stay():
    code, out, _ = fill("ßß sees a ___{1,4} dog .\n", "--keep-unknown")
    assert code == 0
    assert out.startswith("ßß sees a ") and out.endswith(" dog .\n")


def test_special_symbols_in_text_are_text():
    code, _, err = fill("</s> sees a ___ dog .\n<pad> ___\n")
    assert code == 1
    assert "line 1, column 1: " in err and "line 2, column 1: " in err


def test_moses_leaves_blanks_alone(tmp_path):
    path = tmp_path / "templates"
    path.write_text("anna sees a ___{1,4} dog.\n")
    code, out, err = fill("", "--input", path, "--tokenizer", "moses")
    assert (code, out, err) == (0, "anna sees a brown dog.\n", "")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--blank-length", "3,2"], "--blank-length 3,2: a blank has at least one token"),
        (["--samples", 3], "--samples 3 would be equal; add --sampling"),
        (["--nbest", 0], "--nbest must be at least 1, not 0"),
        (["--passes", -1], "--passes must be at least 0, not -1"),
        (["--sampling", "--temperature", 0], "--temperature must be above 0, not 0.0"),
        (["--decode-order", "file"], "--decode-order-file"),
        (["--positions-per-pass", 0], "--positions-per-pass must be at least 1, not 0"),
        (["--input", "nowhere.txt"], "--input nowhere.txt: No such file"),
        (["--max-tokens", 0], "--max-tokens must be at least 1, not 0"),
        (["--decode-threshold", 2], "--decode-threshold must be above 0"),
    ],
)
def test_bad_options(arguments, message):
    if arguments[0] == "--decode-threshold":
        arguments = [*arguments, "--decode-strategy", "threshold"]
    code, out, err = fill("___\n", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_checkpoint_of_another_kind_or_none(toy_bin, short_run):
    code, _, err = lm.command(
        "fill", "--path", short_run / "checkpoint_last.pt", "--data", toy_bin, "--cpu"
    )
    assert code == 2 and "GMLMTransformerModel is no masked language model" in err
    code, _, err = lm.command("fill", "--path", "nowhere.pt", "--data", lm.data_bin(), "--cpu")
    assert code == 2 and "--path nowhere.pt" in err


def test_the_command_as_a_user_starts_it(tmp_path):
    path = tmp_path / "templates"
    path.write_text("anna sees a ___{1,4} cat .\n")
    done = lm.process(
        "fill", "--path", lm.checkpoint(), "--data", lm.data_bin(), "--cpu", "--input", path,
        "--bpe", "subword_nmt", "--bpe-codes", lm.codes(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "anna sees a black cat .\n")
