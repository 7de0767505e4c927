"""The recipe for GLUE prepares its files and trains."""

import sys
from pathlib import Path

import lm_support as lm
import pytest

RECIPE = Path(__file__).resolve().parents[2] / "examples" / "glue"


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(RECIPE))
    yield
    sys.path.remove(str(RECIPE))


def files(folder, kind):
    """Three training and two development examples, in the columns of the task."""
    folder.mkdir()
    rows = {
        "RTE": ("index\tsentence1\tsentence2\tlabel", "{i}\tanna sees a dog .\ta cat\t{label}",
                ["entailment", "not_entailment", "entailment"]),
        "STS-B": ("\t".join("abcdefghij"), "\t".join("1234567") + "\tanna .\totto .\t{label}",
                  ["2.5", "5.0", "0.0"]),
        "CoLA": (None, "source\t{label}\t*\tanna sees a cat .", ["1", "0", "1"]),
    }  # fmt: skip
    header, row, labels = rows[kind]
    for name, count in (("train", 3), ("dev", 2)):
        lines = [] if header is None else [header]
        lines += [row.format(i=i, label=labels[i]) for i in range(count)]
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.mark.parametrize("kind", ["RTE", "STS-B", "CoLA"])
def test_a_task_trains_with_the_released_values(tmp_path, kind, capsys):
    import finetune
    from helpers.commands import call

    arguments = [
        "--task", kind, "--glue", str(files(tmp_path / "glue", kind)), "--checkpoint",
        str(lm.checkpoint()), "--dict", str(lm.data_bin() / "dict.txt"), "--output",
        str(tmp_path / "out"), "--arch", "gmlm_lm", "--max-positions", "32", "--bpe",
        "subword_nmt", "--bpe-codes", str(lm.codes()), "--print", "--",
    ]  # fmt: skip
    model = [str(option) for option in lm.MODEL if option not in ("--arch", "gmlm_lm")]
    extra = [*model, "--cpu", "--num-workers", "0", "--log-format", "none", "--max-update", "1"]
    assert finetune.main([*arguments, *extra]) == 0
    import shlex

    words = shlex.split(capsys.readouterr().out)
    rate, epochs = {"RTE": ("1e-05", "4"), "STS-B": ("2e-05", "9"), "CoLA": ("5e-06", "10")}[kind]
    assert words[words.index("--lr") + 1] == rate
    assert words[words.index("--max-epoch") + 1] == epochs
    assert ("--regression-target" in words) == (kind == "STS-B")
    command = words[words.index("fairseq_cli.train") + 1 :]
    at = command.index("--user-dir")
    call("train", *command[:at], *command[at + 2 :])
    assert (tmp_path / "out" / "seed1" / "checkpoint_last.pt").is_file()
