import json
import subprocess
import sys

import pytest
from conftest import REFERENCE

from fairseq_gmlm.cli.main import main
from fairseq_gmlm.theory.graphs import clique_ising
from fairseq_gmlm.theory.report import ising_report


def test_the_command_prints_the_reference(capsys, reference):
    assert main(["theory", str(REFERENCE)]) == 0
    printed = json.loads(capsys.readouterr().out)
    for key, expected in reference.items():
        if isinstance(expected, list) and key != "fields":
            assert printed[key] == pytest.approx(expected, abs=1e-6)
        else:
            assert printed[key] == expected
    assert list(printed)[: len(reference)] == list(reference)
    assert set(printed) - set(reference) == {"mixing_steps", "stationary_bias"}


def test_mixing_and_bias_are_those_of_the_table():
    report = ising_report(clique_ising([5], 0.3, 0.2))
    steps, bias = report["mixing_steps"], report["stationary_bias"]
    assert (steps["block_gibbs"][0], steps["block_gibbs"][1], steps["block_gibbs"][4]) == (
        65,
        25,
        1,
    )
    assert steps["synchronous"] == 14
    assert max(bias["block_gibbs"]) < 1e-12
    assert f"{bias['synchronous']:.3f}" == "0.127"
    assert f"{bias['masked_product'][1]:.3f}" == "0.020"
    assert f"{bias['masked_product'][4]:.3f}" == "0.394"
    assert "seed" not in report


def test_couplings_beyond_double_precision_give_null_not_a_crash(tmp_path, capsys):
    path = tmp_path / "strong.json"
    couplings = {"0,1": 80.0, "0,2": 80.0, "1,2": 80.0}
    path.write_text(json.dumps({"couplings": couplings, "fields": [0.3] * 3}), "utf-8")
    assert main(["theory", str(path)]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["poincare_constant"][0] is None
    assert printed["mixing_steps"]["block_gibbs"] == [None, None, 1]
    assert printed["trace_inverse_information_joint_one_mask"] == [None, None, None]


def test_too_many_spins_are_a_user_error(tmp_path, capsys):
    path = tmp_path / "big.json"
    path.write_text(json.dumps({"couplings": {"0,1": 1.0}, "fields": [0.0] * 11}), "utf-8")
    assert main(["theory", str(path)]) == 2
    message = capsys.readouterr().err
    assert f"{path}: too many states: N=11" in message and "N <= 10" in message


def test_a_bad_file_is_a_user_error(tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_text('{"couplings": [[0, 1], [2, 0]], "fields": [0, 0]}', "utf-8")
    assert main(["theory", str(path)]) == 2
    assert "asymmetric: 0,1 is 1.0 but 1,0 is 2.0" in capsys.readouterr().err


def test_the_library_needs_no_fairseq_nor_extras():
    """Every module is imported in a fresh interpreter in which those cannot be."""
    code = (
        "import sys, pkgutil, importlib\n"
        "for name in ('fairseq', 'matplotlib', 'scipy'): sys.modules[name] = None\n"
        "import fairseq_gmlm.theory as theory\n"
        "for m in pkgutil.iter_modules(theory.__path__):\n"
        "    importlib.import_module('fairseq_gmlm.theory.' + m.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
