"""fairseq-gmlm average on checkpoints that fairseq-train wrote."""

import pytest
import torch
from toy_teacher import run_command

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.checkpoints import load_checkpoint


def average(*arguments):
    return main(["average", *map(str, arguments)])


def refused(capsys, status):
    assert status == 2
    return capsys.readouterr().err.strip().split("\n")[-1]


def test_the_average_of_identical_files_is_identical(toy_teacher, tmp_path):
    assert average("--inputs", *[toy_teacher] * 3, "--output", tmp_path / "a.pt") == 0
    before, after = load_checkpoint(toy_teacher), load_checkpoint(tmp_path / "a.pt")
    assert before["model"].keys() == after["model"].keys()
    for name, value in before["model"].items():
        assert torch.equal(value, after["model"][name]), name
    assert "last_optimizer_state" not in after
    assert after["extra_state"]["averaged_from"] == [toy_teacher.name] * 3


def test_last_and_best_choose_and_average(toy_checkpoints, tmp_path, capsys):
    folder = ["--checkpoint-dir", toy_checkpoints]
    assert average(*folder, "--last", 2, "--output", tmp_path / "last.pt") == 0
    out = capsys.readouterr().out
    assert [line.split("/")[-1] for line in out.split("\n")[:2]] == [
        "checkpoint40.pt",
        "checkpoint60.pt",
    ]
    name = "decoder.layers.0.fc1.weight"
    parts = [
        load_checkpoint(toy_checkpoints / f"checkpoint{n}.pt")["model"][name] for n in (40, 60)
    ]
    expected = ((parts[0].double() + parts[1].double()) / 2).float()
    torch.testing.assert_close(
        load_checkpoint(tmp_path / "last.pt")["model"][name], expected, rtol=0, atol=1e-7
    )
    assert average(*folder, "--best", 2, "--output", tmp_path / "best.pt") == 0
    values = {
        n: load_checkpoint(toy_checkpoints / f"checkpoint{n}.pt")["extra_state"]["val_loss"]
        for n in (20, 40, 60)
    }
    chosen = capsys.readouterr().out.count("averaged ")
    state = load_checkpoint(tmp_path / "best.pt")
    updates = [
        load_checkpoint(toy_checkpoints / n)["optimizer_history"][-1]["num_updates"]
        for n in state["extra_state"]["averaged_from"]
    ]
    by_epoch = {
        n: load_checkpoint(toy_checkpoints / f"checkpoint{n}.pt")["optimizer_history"][-1][
            "num_updates"
        ]
        for n in values
    }
    assert chosen == 2
    assert updates == [by_epoch[n] for n in sorted(values, key=values.get)[:2]]


def test_the_result_decodes(toy_checkpoints, toy_data, tmp_path):
    output = tmp_path / "average.pt"
    assert average("--checkpoint-dir", toy_checkpoints, "--last", 3, "--output", output) == 0
    done = run_command(
        *["fairseq_cli.generate", toy_data, "--path", output, "--cpu", "--beam", 2],
        *["--user-dir", "fairseq_gmlm", "--task", "translation"],
    )
    assert done.returncode == 0, done.stderr
    assert "\nH-" in done.stdout


def test_models_that_differ_name_files_and_key(toy_teacher, tmp_path, capsys):
    state = load_checkpoint(toy_teacher)
    state["model"]["decoder.layers.0.fc1.weight"] = torch.zeros(3, 3)
    torch.save(state, tmp_path / "other.pt")
    error = refused(
        capsys,
        average("--inputs", toy_teacher, tmp_path / "other.pt", "--output", tmp_path / "x.pt"),
    )
    assert "decoder.layers.0.fc1.weight has shape [64, 32] in" in error
    assert str(toy_teacher) in error
    assert f"[3, 3] in {tmp_path / 'other.pt'}" in error
    assert not (tmp_path / "x.pt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--last", 2], "--last 2 needs --checkpoint-dir"),
        (["--best", 0, "--checkpoint-dir", "."], "--best 0: must be 1 or more"),
        (["--inputs", "a.pt", "--checkpoint-dir", "."], "not with --inputs"),
        (["--inputs", "a.pt"], "no such file: a.pt"),
        (["--last", 2, "--checkpoint-dir", "nowhere"], "no such folder: nowhere"),
    ],
)
def test_wrong_options(tmp_path, capsys, arguments, message):
    assert message in refused(capsys, average(*arguments, "--output", tmp_path / "x.pt"))
    assert not (tmp_path / "x.pt").exists()


def test_an_unwritable_output_is_named(toy_teacher, tmp_path, capsys):
    output = tmp_path / "no" / "x.pt"
    error = refused(capsys, average("--inputs", toy_teacher, "--output", output))
    assert f"{output}: No such file or directory" in error
