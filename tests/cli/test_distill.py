"""fairseq-gmlm distill with a tiny teacher: order, copies, engines, shards, kills."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from toy_teacher import ROOT, run_command

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.data.databin import Languages, load_dictionary, load_split, prefix_of

PAIR = Languages("en", "de")


def distill(teacher, data, out, *options):
    arguments = ["distill", "--path", teacher, "--data", data, "--destdir", out, "--cpu", *options]
    return main([str(argument) for argument in arguments])


def targets(folder, language="de"):
    data = load_split(prefix_of(folder, "train", PAIR, language))
    return [data[i].tolist() for i in range(len(data))]


def refused(capsys, status):
    assert status == 2
    return capsys.readouterr().err.strip().split("\n")[-1]


@pytest.fixture(scope="module")
def distilled(toy_teacher, toy_data, tmp_path_factory):
    """Made in one go by fairseq's engine with beam 3."""
    out = tmp_path_factory.mktemp("distilled") / "bin"
    assert distill(toy_teacher, toy_data, out, "--beam", 3, "--chunk-size", 50) == 0
    return out


def test_everything_but_train_targets_is_copied_byte_for_byte(distilled, toy_data):
    changed = {"train.en-de.de.bin", "train.en-de.de.idx"}
    kept = {path.name for path in toy_data.iterdir()} - changed - {"preprocess.log"}
    made = {path.name for path in distilled.iterdir()}
    assert made == kept | changed | {"distill.json"}
    assert {"valid.en-de.de.bin", "test.en-de.en.idx", "dict.en.txt", "bpecodes"} <= kept
    assert {"test.raw.de", "valid.tok.en", "prepare.json", "train.en-de.en.bin"} <= kept
    for name in kept:
        assert (distilled / name).read_bytes() == (toy_data / name).read_bytes(), name


def test_order_and_count_and_targets_are_those_of_fairseq_generate(
    distilled, toy_teacher, toy_data
):
    done = run_command(
        *["fairseq_cli.generate", toy_data, "--path", toy_teacher, "--gen-subset", "train"],
        *["--cpu", "--beam", 3, "--user-dir", ROOT / "fairseq_gmlm", "--max-tokens", 2000],
    )
    assert done.returncode == 0, done.stderr
    dictionary = load_dictionary(toy_data, "de")
    expected = {}
    for line in done.stdout.split("\n"):
        if line.startswith("H-"):
            number, _, text = line[2:].split("\t")
            expected[int(number)] = text
    made = [dictionary.string(ids) for ids in load_split(prefix_of(distilled, "train", PAIR, "de"))]
    assert len(made) == len(expected) == 320
    # Ties and the last digits of sums may fall the other way in another batch.
    equal = sum(made[number] == text for number, text in expected.items())
    assert equal >= 316
    assert len(set(made)) > 150, "a teacher with one answer to everything would hide any mistake"
    assert targets(distilled) != targets(toy_data)


def test_the_side_car(distilled, toy_teacher):
    record = json.loads((distilled / "distill.json").read_text())
    assert record["teacher"]["sha256"] == hashlib.sha256(toy_teacher.read_bytes()).hexdigest()
    assert record["options"]["engine"] == "fairseq"
    assert record["options"]["beam"] == 3
    assert record["direction"] == {"source": "en", "target": "de"}
    assert record["counts"]["sentences"] == record["counts"]["translated"] == 320
    ratios = record["length_ratios"]["distilled_to_source"]
    lengths = [len(t) - 1 for t in targets(distilled)]
    sources = [len(t) - 1 for t in targets(distilled, "en")]
    assert ratios["corpus"] == pytest.approx(sum(lengths) / sum(sources))
    values = [a / b for a, b in zip(lengths, sources)]
    assert ratios["min"] == min(values)
    assert ratios["max"] == max(values)
    assert ratios["mean"] == pytest.approx(sum(values) / len(values))
    assert record["versions"]["torch"]


def test_no_symbol_is_ever_a_target(distilled):
    dictionary = load_dictionary(distilled, "de")
    specials = {dictionary.bos(), dictionary.pad(), dictionary.unk()}
    for ids in targets(distilled):
        assert not set(ids) & specials
        assert ids.count(dictionary.eos()) == 1 == len(ids) - ids.index(dictionary.eos())


def test_a_finished_distillation_is_not_made_again(distilled, toy_teacher, toy_data, capsys):
    before = (distilled / "distill.json").stat().st_mtime_ns
    assert distill(toy_teacher, toy_data, distilled, "--beam", 3, "--chunk-size", 50) == 0
    assert "holds this distillation already" in capsys.readouterr().out
    assert (distilled / "distill.json").stat().st_mtime_ns == before
    error = refused(capsys, distill(toy_teacher, toy_data, distilled, "--chunk-size", 50))
    assert "holds another distillation (beam: 3, now 5)" in error


def test_killed_at_any_moment_it_goes_on(distilled, toy_teacher, toy_data, tmp_path):
    out = tmp_path / "bin"
    options = ["--beam", "3", "--chunk-size", "5", "--batch-size", "1", "--cpu"]
    command = ["distill", "--path", toy_teacher, "--data", toy_data, "--destdir", out, *options]
    chunks = []
    for kill_after in (3, 9):
        process = subprocess.Popen(
            [sys.executable, "-m", "fairseq_gmlm.cli.main", *map(str, command)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 90
        while len(list((tmp_path / "bin.partial").glob("chunk-*.npz"))) < kill_after:
            assert process.poll() is None, "finished before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not out.exists()
        found = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "bin.partial").glob("chunk-*")}
        chunks.append({name: time for name, time in found.items() if name.endswith(".npz")})
    assert len(chunks[0]) < len(chunks[1]) < 64
    assert chunks[0].items() <= chunks[1].items(), "a finished chunk was made again"
    assert main([str(argument) for argument in command]) == 0
    assert targets(out) == targets(distilled)
    assert not (tmp_path / "bin.partial").exists()


def test_shards_and_merge(distilled, toy_teacher, toy_data, tmp_path, capsys):
    out = tmp_path / "bin"
    options = ["--beam", 3, "--chunk-size", 50]
    for shard in (1, 0):
        sharded = [*options, "--shards", 3, "--shard", shard]
        assert distill(toy_teacher, toy_data, out, *sharded) == 0
        assert f"shard {shard} of 3 is done" in capsys.readouterr().out
    error = refused(capsys, distill(toy_teacher, toy_data, out, *options, "--merge"))
    assert "2 of 7 chunks are missing (2, 5)" in error
    assert not out.exists()
    assert distill(toy_teacher, toy_data, out, *options, "--shards", 3, "--shard", 2) == 0
    # A file that was cut short while it was copied from another machine.
    damaged = tmp_path / "bin.partial" / "chunk-000004.npz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    error = refused(capsys, distill(toy_teacher, toy_data, out, *options, "--merge"))
    assert "chunk-000004.npz: damaged" in error
    assert not out.exists()
    damaged.write_bytes(whole)
    assert distill(toy_teacher, toy_data, out, *options, "--merge") == 0
    assert targets(out) == targets(distilled)


def test_ctranslate2_finds_what_fairseq_finds(distilled, toy_teacher, toy_data, tmp_path):
    pytest.importorskip("ctranslate2")
    options = ["--engine", "ctranslate2", "--beam", 3, "--chunk-size", 50]
    out = tmp_path / "float32"
    assert distill(toy_teacher, toy_data, out, *options, "--compute-type", "float32") == 0
    pairs = list(zip(targets(out), targets(distilled)))
    assert sum(a == b for a, b in pairs) / len(pairs) >= 0.97
    assert distill(toy_teacher, toy_data, tmp_path / "int8", *options) == 0
    record = json.loads((tmp_path / "int8" / "distill.json").read_text())
    assert record["options"]["compute_type"] == "int8"
    assert record["versions"]["ctranslate2"]
    assert len(targets(tmp_path / "int8")) == 320


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_search_options_reach_the_engine(engine, toy_teacher, toy_data, tmp_path):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2")
    lengths = {}
    for name, options in {
        "plain": [],
        "short": ["--lenpen", -3],
        "limited": ["--max-len-a", 0, "--max-len-b", 2],
        "relative": ["--max-len-a", 0.5, "--max-len-b", 1, "--batch-size", 1],
    }.items():
        out = tmp_path / name
        assert distill(toy_teacher, toy_data, out, "--engine", engine, *options) == 0
        lengths[name] = [len(ids) - 1 for ids in targets(out)]
    assert sum(lengths["short"]) < sum(lengths["plain"])
    assert max(lengths["limited"]) == 2
    sources = [len(ids) for ids in targets(toy_data, "en")]
    assert all(n <= int(0.5 * s + 1) for n, s in zip(lengths["relative"], sources))


def test_sentences_that_cannot_be_translated_keep_their_reference(toy_teacher, toy_data, tmp_path):
    from fairseq.data import indexed_dataset

    data = shutil.copytree(toy_data, tmp_path / "data")
    eos = load_dictionary(data, "en").eos()
    sources = targets(data, "en")
    sources[7] = [eos]
    sources[9] = [5] * 2000 + [eos]
    import torch

    prefix = prefix_of(data, "train", PAIR, "en")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=99)
    for ids in sources:
        builder.add_item(torch.tensor(ids, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    assert distill(toy_teacher, data, tmp_path / "bin", "--teacher-data", toy_data) == 0
    counts = json.loads((tmp_path / "bin" / "distill.json").read_text())["counts"]
    assert counts == {
        "sentences": 320,
        "translated": 318,
        "empty_source": 1,
        "empty_output": 0,
        "source_too_long": 1,
    }
    for number in (7, 9):
        assert targets(tmp_path / "bin")[number] == targets(data)[number]


def test_the_other_direction_of_the_same_data(toy_checkpoints, toy_data, tmp_path):
    from fairseq_gmlm.data.checkpoints import load_checkpoint, save_checkpoint

    state = load_checkpoint(toy_checkpoints / "checkpoint_last.pt")
    state["cfg"]["task"].update(source_lang="de", target_lang="en")
    save_checkpoint(state, tmp_path / "reverse.pt")
    assert distill(tmp_path / "reverse.pt", toy_data, tmp_path / "bin", "--beam", 1) == 0
    out = tmp_path / "bin"
    assert (out / "train.en-de.de.bin").read_bytes() == (
        toy_data / "train.en-de.de.bin"
    ).read_bytes()
    assert targets(out, "en") != targets(toy_data, "en")


def test_other_dictionaries_are_refused_by_their_first_difference(
    toy_teacher, toy_data, tmp_path, capsys
):
    data = shutil.copytree(toy_data, tmp_path / "data")
    lines = (data / "dict.de.txt").read_text().split("\n")
    lines[2], lines[3] = lines[3], lines[2]
    (data / "dict.de.txt").write_text("\n".join(lines))
    error = refused(capsys, distill(toy_teacher, data, tmp_path / "bin"))
    mine, other = (line.split(" ")[0] for line in (lines[2], lines[3]))
    assert f"dict.de.txt: entry 6 is {other!r} for the teacher" in error
    assert f"{mine!r} in the data" in error


def test_a_dictionary_of_another_size_is_refused(toy_teacher, toy_data, tmp_path, capsys):
    data = shutil.copytree(toy_data, tmp_path / "data")
    with (data / "dict.en.txt").open("a") as stream:
        stream.write("extra 1\n")
    error = refused(
        capsys, distill(toy_teacher, data, tmp_path / "bin", "--teacher-data", toy_data)
    )
    assert "is None for the teacher" in error
    shutil.copytree(data, tmp_path / "other")
    error = refused(
        capsys,
        distill(toy_teacher, data, tmp_path / "bin", "--teacher-data", tmp_path / "other"),
    )
    assert "symbols of en, dict.en.txt in" in error


def test_a_model_that_is_not_autoregressive_is_refused(toy_data, tmp_path, capsys):
    done = run_command(
        *["fairseq_cli.train", toy_data, "--task", "translation_lev", "--arch", "cmlm_transformer"],
        *["--criterion", "nat_loss", "--noise", "random_mask", "--optimizer", "adam", "--cpu"],
        *[
            "--encoder-layers",
            1,
            "--decoder-layers",
            1,
            "--encoder-embed-dim",
            16,
            "--max-epoch",
            1,
        ],
        *["--encoder-attention-heads", 2, "--decoder-attention-heads", 2, "--max-tokens", 2000],
        *["--decoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--decoder-ffn-embed-dim", 16],
        *["--save-dir", tmp_path, "--num-workers", 0, "--no-epoch-checkpoints"],
        *["--disable-validation", "--user-dir", ROOT / "fairseq_gmlm"],
    )
    assert done.returncode == 0, done.stderr
    error = refused(capsys, distill(tmp_path / "checkpoint_last.pt", toy_data, tmp_path / "bin"))
    assert "is a CMLMNATransformerModel: distillation needs an autoregressive teacher" in error


def test_folders_in_use_and_wrong_data(distilled, toy_teacher, toy_data, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    assert "is not empty" in refused(capsys, distill(toy_teacher, toy_data, tmp_path / "mine"))
    assert "is the --data folder" in refused(capsys, distill(toy_teacher, toy_data, toy_data))
    error = refused(capsys, distill(toy_teacher, distilled, tmp_path / "bin"))
    assert "is distilled already" in error
    error = refused(capsys, distill(toy_teacher, tmp_path / "mine", tmp_path / "bin"))
    assert "expected train.SRC-TGT.SRC.idx of one language pair, found none" in error
    error = refused(capsys, distill(tmp_path / "none.pt", toy_data, tmp_path / "bin"))
    assert "--path: no such file" in error


def test_unfinished_work_of_another_teacher_is_refused(toy_checkpoints, toy_data, tmp_path, capsys):
    first, second = (toy_checkpoints / f"checkpoint{n}.pt" for n in (20, 40))
    options = ["--chunk-size", 100, "--beam", 1]
    half = [*options, "--shards", 2, "--shard", 0]
    assert distill(first, toy_data, tmp_path / "bin", *half) == 0
    capsys.readouterr()
    error = refused(capsys, distill(second, toy_data, tmp_path / "bin", *options))
    assert "unfinished work of another distillation (teacher_sha256:" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shards", 2], "--shards 2 needs --shard K (0 to 1)"),
        (["--shards", 2, "--shard", 2], "--shard 2: must be 0 to 1"),
        (["--shard", 0, "--merge"], "--merge follows when all shards are done"),
        (["--beam", 0], "--beam 0: must be 1 or more"),
        (["--compute-type", "int8"], "--compute-type needs --engine ctranslate2"),
        (["--max-len-b", 0], "allow no token at all"),
        (["--chunk-size", 0], "--chunk-size 0: must be 1 or more"),
    ],
)
def test_wrong_options(toy_teacher, toy_data, tmp_path, capsys, options, message):
    assert message in refused(capsys, distill(toy_teacher, toy_data, tmp_path / "bin", *options))
    assert not (tmp_path / "bin.partial").exists()


def test_an_unknown_compute_type_is_named(toy_teacher, toy_data, tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    options = ["--engine", "ctranslate2", "--compute-type", "int3"]
    assert "--compute-type int3" in refused(
        capsys, distill(toy_teacher, toy_data, tmp_path / "bin", *options)
    )


def test_two_processes_of_one_shard_do_not_get_in_each_others_way(
    toy_teacher, toy_data, tmp_path, capsys
):
    from fairseq_gmlm.data.files import folder_lock

    work = tmp_path / "bin.partial"
    work.mkdir()
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder_lock(work, ".lock-0-of-1"))
        error = refused(capsys, distill(toy_teacher, toy_data, tmp_path / "bin"))
    assert "another process is working in it" in error
