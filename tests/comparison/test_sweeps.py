"""One row to many."""

import pytest

from fairseq_gmlm.comparison.sweeps import expand
from fairseq_gmlm.errors import UserError


def test_every_combination_becomes_a_row() -> None:
    row = {
        "name": "G",
        "path": "g.pt",
        "options": {"lenpen": 0.5},
        "sweep": {"iter_decode_max_iter": [0, 9], "iter_decode_with_beam": [1, 3]},
    }
    found = expand(row, "here")
    assert [each["name"] for each in found] == [
        "G, iter_decode_max_iter=0, iter_decode_with_beam=1",
        "G, iter_decode_max_iter=0, iter_decode_with_beam=3",
        "G, iter_decode_max_iter=9, iter_decode_with_beam=1",
        "G, iter_decode_max_iter=9, iter_decode_with_beam=3",
    ]
    assert found[1]["options"] == {
        "lenpen": 0.5, "iter_decode_max_iter": 0, "iter_decode_with_beam": 3,
    }  # fmt: skip
    assert all(each["path"] == "g.pt" and "sweep" not in each for each in found)
    assert row["options"] == {"lenpen": 0.5}


def test_places_in_the_name_are_filled() -> None:
    sweep = {"iter_decode_max_iter": [3], "iter_decode_with_beam": [5]}
    name = "CMLM, {passes} passes, {iter_decode_with_beam} lengths {x y}"
    (row,) = expand({"name": name, "sweep": sweep}, "here")
    assert row["name"] == "CMLM, 4 passes, 5 lengths {x y}"


def test_no_sweep_no_change() -> None:
    row = {"name": "{passes}"}
    assert expand(row, "here") == [row]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "a", "sweep": [1]}, "here: 'sweep' must give lists"),
        ({"name": "a", "sweep": {"beam": 5}}, "sweep: 'beam' must be a list"),
        ({"name": "a", "sweep": {"beam": []}}, "sweep: 'beam' must be a list"),
        ({"name": "a", "options": {"beam": 1}, "sweep": {"beam": [5]}}, "both in 'options'"),
        ({"name": "{passes}", "sweep": {"beam": [5]}}, "the name has {passes}"),
    ],
)
def test_faults_are_named(row, message) -> None:
    with pytest.raises(UserError, match=message):
        expand(row, "here")
