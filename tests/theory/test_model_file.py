import json

import pytest
import torch

from fairseq_gmlm.errors import UserError
from fairseq_gmlm.theory.model_file import read_ising

GOOD = {"N": 2, "couplings": {"0,1": 0.5}, "fields": [0.1, -0.2]}


def write(tmp_path, data):
    path = tmp_path / "model.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


def test_both_forms_of_couplings(tmp_path):
    model, seed = read_ising(write(tmp_path, {**GOOD, "seed": 3}))
    assert model.couplings.tolist() == [[0, 0.5], [0.5, 0]] and seed == 3
    assert model.fields.tolist() == [0.1, -0.2]
    matrix = {"couplings": [[0, 0.5], [0.5, 0]], "fields": [0.1, -0.2]}
    again, seed = read_ising(write(tmp_path, matrix))
    assert again.couplings.equal(model.couplings) and seed is None


def test_pairs_left_out_do_not_interact_but_are_parameters(tmp_path):
    data = {"couplings": {"2,0": 0.5, "0,2": 0.5}, "fields": [0, 0, 0]}
    model, _ = read_ising(write(tmp_path, data))
    assert model.couplings.nonzero().tolist() == [[0, 2], [2, 0]]
    assert len(model.parameters) == 6


BAD = [
    ('{"N": 2,', "not JSON, line 1 column 9"),
    ("[1, 2]", "holds a list, expected an object"),
    ({"N": 2, "fields": [0, 0]}, 'key "couplings" is missing'),
    ({"N": 2, "couplings": {}}, 'key "fields" is missing'),
    ({**GOOD, "N": 3}, "fields has 2 numbers but N is 3"),
    ({**GOOD, "N": "2"}, "N is '2'; it must be a positive whole number"),
    ({**GOOD, "N": True}, "N is True"),
    ({**GOOD, "fields": 0.1}, "fields must be a list"),
    ({**GOOD, "fields": []}, "fields must be a list"),
    ({**GOOD, "fields": [0.1, "x"]}, r"fields\[1\] is 'x'"),
    ({**GOOD, "fields": [0.1, None]}, r"fields\[1\] is None"),
    ('{"couplings": {"0,1": NaN}, "fields": [0, 0]}', r'couplings\["0,1"\] is nan'),
    ('{"couplings": {"0,1": Infinity}, "fields": [0, 0]}', r'couplings\["0,1"\] is inf'),
    ({**GOOD, "couplings": {"0,1": 0.5, "1,0": 0.4}}, "asymmetric: 0,1 is 0.5 but 1,0 is 0.4"),
    ({**GOOD, "couplings": [[0, 0.5], [0.4, 0]]}, "asymmetric: 0,1 is 0.5 but 1,0 is 0.4"),
    ({**GOOD, "couplings": [[1, 0.5], [0.5, 0]]}, "coupling 0,0 is 1.0"),
    ({**GOOD, "couplings": [[0, 0.5]]}, "couplings must be 2 rows of 2 numbers"),
    ({**GOOD, "couplings": {"0,2": 0.5}}, 'coupling "0,2" names a site outside 0 to 1'),
    ({**GOOD, "couplings": {"0-1": 0.5}}, 'coupling "0-1" does not name a pair'),
    ({**GOOD, "couplings": 0.5}, "couplings is a float"),
]


@pytest.mark.parametrize("data,message", BAD)
def test_bad_files_are_named(tmp_path, data, message):
    path = write(tmp_path, data)
    with pytest.raises(UserError, match=message) as caught:
        read_ising(path)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_ising(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read_ising(tmp_path / "binary.json")


def test_numbers_keep_their_digits(tmp_path):
    model, _ = read_ising(write(tmp_path, {"couplings": {"0,1": 0.1}, "fields": [0.2, 0.3]}))
    assert model.fields.equal(torch.tensor([0.2, 0.3], dtype=torch.double))
