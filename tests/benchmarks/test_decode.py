"""Every system of the decoding benchmark, on models of one tiny layer."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import peak_memory
import pytest
from bars import CMLM, CURVE, GMLM, GOALS, systems_of
from decode import Models, all_systems, equal_share, main, measure, own_setting, parser
from engines import Setting, System, build_run
from random_models import Size
from reporting import KEYS, check_rows
from timing import Times

# A stock model may predict padding or EOS, which fairseq then cuts out; among many words it does not.
TINY = Setting(batch=2, length=6, size=Size(1, 1, width=16, ffn=24, heads=2, vocabulary=3000))


def needs_ctranslate2(system: System) -> None:
    """Skip where it is not installed."""
    if system.engine == "ctranslate2":
        pytest.importorskip("ctranslate2")


@pytest.mark.parametrize(
    "system",
    all_systems(parser().parse_args(["--passes", "3"])),
    ids=lambda s: f"{s.label}, {s.engine}, {s.dtype}",
)
def test_every_system_gives_as_many_tokens(system: System, tmp_path: Path) -> None:
    needs_ctranslate2(system)
    models = Models(tmp_path)
    run = build_run(system, own_setting(system, TINY), models.source(system, TINY.size))
    found = run()
    # Masked models frame 5 words by BOS and EOS; autoregressive ones take 6 steps.
    expected = 7 if system.passes else 6
    assert [len(tokens) for tokens in found] == [expected] * 2
    assert run() == found


def test_rows_and_equal_tokens(tmp_path: Path) -> None:
    systems = [replace(GMLM, passes=3), replace(CMLM, passes=3)]
    rows, times = measure(systems, TINY, Models(tmp_path), rounds=2, memory=False)
    check_rows(rows)
    assert [row["equal"] for row in rows] == [1.0, None]
    assert [row["passes"] for row in rows] == [3, 3]
    assert all(len(times[system].values) == 2 for system in systems)
    assert rows[0]["layers"] == "1+1" and rows[0]["peak_mb"] is None


def test_share_of_equal_tokens_leaves_the_frame_out() -> None:
    one, other = replace(GMLM, passes=3), replace(CMLM, passes=3)
    outputs = {one: [[0, 5, 6, 7, 8, 2]], other: [[0, 5, 6, 7, 9, 2]]}
    assert equal_share(outputs, one) == 0.75
    assert equal_share(outputs, other) is None
    assert equal_share({one: outputs[one]}, one) is None


def test_each_goal_is_the_ratio_of_its_two_systems() -> None:
    for goal in GOALS:
        assert {goal.slow, goal.fast} <= set(systems_of(goal.setting))
        bar = goal.bar({goal.slow: Times([6.0, 9.0]), goal.fast: Times([2.0, 3.0])})
        assert (bar.reached, bar.at_least) == (3.0, goal.at_least)
    assert [system.name for system in CURVE] == ["gmlm", "gmlm", "transformer", "transformer"]


def test_the_deep_shallow_model_has_other_layers() -> None:
    system = System("transformer 12-1", "fairseq", beam=1)
    size = own_setting(system, Setting()).size
    assert (size.encoder, size.decoder, size.width) == (12, 1, 512)
    assert own_setting(GMLM, Setting()) == Setting()


def test_high_water_grows() -> None:
    # In a process of its own: this one may have held more before than it holds now.
    code = (
        f"import sys; sys.path.insert(0, {str(Path(peak_memory.__file__).parent)!r})\n"
        "from peak_memory import high_water\n"
        "before = high_water()\n"
        "block = bytearray(64 << 20)\n"
        "block[:: 1 << 12] = b'1' * (len(block) >> 12)\n"
        "print(high_water() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 60 < float(done.stdout) < 70


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("decode.Size", lambda vocabulary: replace(TINY.size, vocabulary=vocabulary))
    main([
        "--batch", "1", "2", "--length", "4", "--vocabulary", "3000", "--passes", "2", "--rounds", "2",
        "--systems", "gmlm", "cmlm", "--dtypes", "float32", "--no-memory",
        "--json", str(tmp_path / "new" / "rows.json"),
    ])  # fmt: skip
    rows = json.loads((tmp_path / "new" / "rows.json").read_text())
    assert [(row["system"][:4], row["batch"]) for row in rows] == [
        ("gmlm", 1), ("cmlm", 1), ("gmlm", 2), ("cmlm", 2)
    ]  # fmt: skip
    assert set(KEYS) <= set(rows[0]) and "| gmlm, 2 passes" in capsys.readouterr().out
