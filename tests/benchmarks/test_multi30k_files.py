"""The comparison files beside the benchmarks are ones that compare reads."""

from pathlib import Path

import pytest

from fairseq_gmlm.comparison.reading import read_spec

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_it_is_read(path):
    spec = read_spec(path)
    assert spec.threads == 1 and len(spec.systems) >= 4
    names = [row.name for row in spec.systems]
    assert len(set(names)) == len(names)
    assert spec.baseline is None or spec.baseline in names
