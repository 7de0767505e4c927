"""Whole comparisons in this process, over every kind of row."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Dict, List

import pytest
from sacrebleu import corpus_bleu
from tiny_checkpoints import save_checkpoint_of

from fairseq_gmlm.comparison import workbench
from fairseq_gmlm.comparison.comparison import compare
from fairseq_gmlm.comparison.report import markdown
from fairseq_gmlm.comparison.spec import ComparisonSpec, SystemSpec
from fairseq_gmlm.errors import UserError

TWO = {"iter_decode_max_iter": 1, "iter_decode_force_max_iter": True}


@pytest.fixture(autouse=True)
def quiet() -> None:
    """fairseq logs its whole configuration for each checkpoint."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)


@pytest.fixture(scope="module")
def second_seed(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GMLM from another seed."""
    folder = tmp_path_factory.mktemp("seed")
    return save_checkpoint_of("gmlm_transformer", tiny_data, folder / "b.pt", seed=1)


def spec_of(tiny: Dict[str, Path], data: Path, systems: List[SystemSpec]) -> ComparisonSpec:
    """A small comparison."""
    return ComparisonSpec(
        str(data), systems, batch_size=4, latency_sentences=3, length_buckets=2,
        bootstrap_samples=20,
    )  # fmt: skip


def test_every_kind_of_row_beside_each_other(tiny, tiny_data: Path, tmp_path: Path) -> None:
    systems = [
        SystemSpec(arch, str(path), TWO if arch != "transformer" else {"max_len_b": 6})
        for arch, path in tiny.items()
    ]
    spec = replace(
        spec_of(tiny, tiny_data, systems),
        baseline="cmlm_transformer", batch_sizes=[1, 4], oracle_length=True,
    )  # fmt: skip
    rows = compare(spec, spec.data, outputs=tmp_path / "out")
    assert [row.name for row in rows] == list(tiny)
    references = (tiny_data / "test.raw.de").read_text("utf-8").split("\n")[:-1]
    for row in rows:
        lines = (tmp_path / "out" / f"{row.name}.txt").read_text("utf-8").split("\n")[:-1]
        assert row.bleu == pytest.approx(corpus_bleu(lines, [references]).score)
        assert list(row.throughput) == ["1", "4"]
        assert row.sentences_per_second == row.throughput["4"] > 0
        assert row.latency_p95_ms >= row.latency_ms > 0
        assert (row.training_updates, row.training_seconds, row.training_stages) == (70, 120, 1)
        assert sum(part["sentences"] for part in row.buckets) == row.sentences == 11
        assert sum(part["timed"] for part in row.buckets) == 3
        own = row.system == "cmlm_transformer"
        assert (row.p_value is None) == own and (row.speedup == 1.0) == own
        assert (row.oracle_length_bleu is not None) == (row.system == "gmlm_transformer")
        assert len(row.timing_runs) == 1
        assert bool(row.warnings) == bool(row.leftovers)


def test_oracle_lengths_need_no_candidates(tiny, tiny_data: Path, tmp_path: Path) -> None:
    """What chooses among candidates says nothing about the one at the oracle's length."""
    path = str(tiny["gmlm_transformer"])
    plain = SystemSpec("plain", path, {**TWO, "iter_decode_with_beam": 1})
    pruned = {**TWO, "iter_decode_with_beam": 3, "prune_to": 2, "prune_after": 1}
    rows = [plain, SystemSpec("pruned", path, pruned)]
    spec = replace(spec_of(tiny, tiny_data, rows), oracle_length=True)
    alone, chosen = compare(spec, spec.data, tmp_path / "out")
    assert alone.oracle_length_bleu == chosen.oracle_length_bleu is not None


def test_seeds_give_mean_and_deviation(tiny, second_seed, tiny_data: Path, tmp_path) -> None:
    first = str(tiny["gmlm_transformer"])
    row = SystemSpec("both", first, TWO, paths=[first, str(second_seed)])
    alone = [SystemSpec("a", first, TWO), SystemSpec("b", str(second_seed), TWO)]
    spec = spec_of(tiny, tiny_data, [row, *alone])
    both, a, b = compare(spec, spec.data, tmp_path / "out")
    assert both.seeds == 2 and a.seeds == 1 and a.bleu_std is None
    assert both.chrf == pytest.approx((a.chrf + b.chrf) / 2)
    assert both.chrf_std == pytest.approx(abs(a.chrf - b.chrf) / 2**0.5)
    assert both.chrf_std > 0 and both.training_updates == 70.5
    texts = {p.name: p.read_text("utf-8") for p in (tmp_path / "out").iterdir()}
    assert texts["both.txt"] == texts["a.txt"] and texts["both.2.txt"] == texts["b.txt"]


def test_finished_cells_are_kept(tiny, tiny_data: Path, tmp_path: Path, monkeypatch) -> None:
    systems = [SystemSpec("a", str(tiny["gmlm_transformer"]), TWO)]
    spec = spec_of(tiny, tiny_data, systems)
    before = compare(spec, spec.data, cache=tmp_path)
    loaded = []
    original = workbench.load_system

    def counted(row, *rest):
        loaded.append(row.name)
        return original(row, *rest)

    monkeypatch.setattr(workbench, "load_system", counted)
    again = compare(spec, spec.data, cache=tmp_path)
    assert again == before and loaded == []

    renamed = replace(systems[0], name="renamed")
    more = replace(spec, systems=[renamed, SystemSpec("new", str(tiny["transformer"]))])
    monkeypatch.setattr(workbench.Workbench, "_run_name", staticmethod(lambda: "another run"))
    rows = compare(more, spec.data, cache=tmp_path)
    assert loaded == ["new"]
    assert rows[0] == replace(before[0], name="renamed")
    assert "Times come from 2 runs" in markdown(rows)

    rows = compare(more, spec.data, cache=tmp_path, retime=True)
    assert loaded == ["new", "renamed", "new"]
    assert [row.timing_runs for row in rows] == [["another run"]] * 2
    assert rows[0].bleu == before[0].bleu


def test_stock_cmlm_that_may_stop_early_is_marked(tiny, tiny_data: Path) -> None:
    path = str(tiny["cmlm_transformer"])
    systems = [
        SystemSpec("early", path, {"iter_decode_max_iter": 9}),
        SystemSpec("forced", path, {**TWO, "beam": 5}),
    ]
    spec = spec_of(tiny, tiny_data, systems)
    early, forced = compare(spec, spec.data)
    assert "without iter_decode_force_max_iter" in early.warnings[0]
    assert all("force" not in warning for warning in forced.warnings)
    assert forced.warnings[-1] == "its decoder does not read beam"
    assert early.leftovers is not None and forced.leftovers is not None


def test_memory_is_measured_in_a_process_of_its_own(tiny, tiny_data: Path, tmp_path) -> None:
    systems = [SystemSpec("a", str(tiny["gmlm_transformer"]), TWO)]
    spec = replace(spec_of(tiny, tiny_data, systems), memory=True)
    (row,) = compare(spec, spec.data, cache=tmp_path)
    assert row.peak_memory_bytes > row.weight_bytes
    assert row.peak_memory_bytes > 50_000_000  # Python and torch are in it
    (again,) = compare(spec, spec.data, cache=tmp_path)
    assert again == row


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "nowhere"}, "no data-bin at nowhere"),
        ({"references": "none"}, "no references at none"),
        ({"split": "dev"}, "'split: dev'"),
    ],
)
def test_faults_show_before_the_work(changes, message, tiny, tiny_data, monkeypatch) -> None:
    monkeypatch.setattr(workbench, "translate", None)  # must not be reached
    systems = [SystemSpec("a", str(tiny["gmlm_transformer"]), TWO)]
    spec = replace(spec_of(tiny, tiny_data, systems), **changes)
    with pytest.raises(UserError, match=message):
        compare(spec, spec.data)
    late = replace(spec, **{**changes, "systems": [*systems, SystemSpec("z", "none.pt")]})
    if "data" not in changes:
        with pytest.raises(UserError, match=r"'z': no checkpoint at none\.pt"):
            compare(late, late.data)
