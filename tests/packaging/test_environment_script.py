"""scripts/environment.sh and the Makefile: which Python, what is reused, what is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "environment.sh"


def fake_python(path, version, has_venv=True):
    """A program that answers the script's questions as a Python of that version would.

    ``-m venv FOLDER`` puts itself there, and ``-m pip`` notes its arguments.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"""#!/bin/sh
case "$*" in
*"sys.version_info[:2]"*) exec "{sys.executable}" -c 'import sys
sys.exit(not (3, 10) <= ({version.replace(".", ", ")})[:2] <= (3, 12))' ;;
*ensurepip*) exit {0 if has_venv else 1} ;;
*platform*) echo {version} ;;
*"sys.version_info >= (3, 11)"*) exec "{sys.executable}" -c 'import sys
sys.exit(({version.replace(".", ", ")}) >= (3, 11))' ;;
*"pip.__version__"*) exit 1 ;;
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip "*) printf '%s\\n' "$*" >>"${{PIP_LOG:-/dev/null}}"
    case "$*" in *"${{PIP_FAILS:-no such word}}"*) exit 1 ;; esac ;;
*) exit 9 ;;
esac
""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def world(tmp_path):
    """A PATH with the tools that the script needs and no Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cksum", "cat", "mv", "rm", "mkdir", "cp", "dirname", "printf"):
        found = shutil.which(name)
        assert found, name
        (tools / name).symlink_to(found)
    return tmp_path


def run(world, **settings):
    environment = {"PATH": f"{world / 'bin'}:{world / 'tools'}", "HOME": str(world)}
    environment.update({"PIP_LOG": str(world / "pip.log"), **settings})
    return subprocess.run(
        ["sh", str(SCRIPT), str(world / "venv"), "test"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def installs(world):
    log = world / "pip.log"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [line.split("--disable-pip-version-check ")[1].strip() for line in lines]


def test_the_newest_with_wheels_is_taken_and_named(world):
    for version in ("3.9.18", "3.10.13", "3.11.7", "3.12.1"):
        fake_python(world / "bin" / f"python{version.rsplit('.', 1)[0]}", version)
    done = run(world)
    assert done.returncode == 0, done.stderr
    assert f"using {world}/bin/python3.11 (Python 3.11.7)" in done.stderr
    assert installs(world) == ["torch==2.13.0+cpu numpy", f"torch==2.13.0 numpy -e {ROOT}[test]"]


def test_a_shim_that_refuses_is_passed_over_and_pyenv_is_searched(world):
    shim = world / "bin" / "python3.11"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    fake_python(world / "bin" / "python3", "3.13.0")
    inside = fake_python(world / ".pyenv/versions/3.12.1/bin/python3", "3.12.1")
    done = run(world)
    assert done.returncode == 0, done.stderr
    assert f"using {inside} (Python 3.12.1)" in done.stderr


def test_an_old_python_gets_old_pip_torch_and_numpy(world):
    fake_python(world / "bin" / "python3.10", "3.10.13")
    done = run(world)
    assert done.returncode == 0, done.stderr
    assert installs(world) == [
        "pip<24.1",
        "torch==2.2.2+cpu numpy<2",
        f"torch==2.2.2 numpy<2 -e {ROOT}[test]",
    ]


def test_settings_are_obeyed(world):
    fake_python(world / "bin" / "python3.11", "3.11.7")
    mine = fake_python(world / "elsewhere" / "python", "3.12.1")
    done = run(world, PYTHON=str(mine), TORCH="torch==2.9.1", PIP_ARGS="--no-cache-dir --pre")
    assert done.returncode == 0, done.stderr
    assert f"using {mine}" in done.stderr
    assert installs(world)[0] == "--no-cache-dir --pre torch==2.9.1+cpu numpy"


def test_an_index_without_cpu_builds_is_no_fault(world):
    fake_python(world / "bin" / "python3.11", "3.11.7")
    done = run(world, PIP_FAILS="+cpu")
    assert done.returncode == 0, done.stderr
    assert "has no torch==2.13.0+cpu: installing torch==2.13.0" in done.stderr
    assert installs(world)[1] == "torch==2.13.0 numpy"


def test_with_a_gpu_the_plain_build_is_installed(world):
    fake_python(world / "bin" / "python3.11", "3.11.7")
    smi = world / "bin" / "nvidia-smi"
    smi.write_text("#!/bin/sh\nexit 0\n")
    smi.chmod(0o755)
    assert "an NVIDIA GPU is here" in run(world).stderr
    assert installs(world)[0] == "torch==2.13.0 numpy"


def test_a_second_run_reuses_and_a_failed_one_does_not_count(world):
    fake_python(world / "bin" / "python3.11", "3.11.7")
    assert run(world, PIP_FAILS="-e ").returncode != 0
    done = run(world)
    assert done.returncode == 0
    assert "reusing" in done.stderr
    count = len(installs(world))
    again = run(world)
    assert again.returncode == 0
    assert "is up to date" in again.stderr
    assert len(installs(world)) == count
    assert run(world, TORCH="torch==2.9.1").returncode == 0
    assert len(installs(world)) > count


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        ([], {}, "no Python 3.10 to 3.12 found"),
        ([("python3", "3.13.0", True)], {}, "no Python 3.10 to 3.12 found"),
        ([("python3", "3.9.18", True)], {}, "no Python 3.10 to 3.12 found"),
        (
            [("python3.11", "3.11.2", False)],
            {},
            "found python3.11, but without the venv or ensurepip",
        ),
        ([], {"PYTHON": "/none"}, "PYTHON=/none does not run or is not Python 3.10 to 3.12"),
    ],
)
def test_what_is_missing_is_named(world, make, settings, message):
    for name, version, has_venv in make:
        fake_python(world / "bin" / name, version, has_venv)
    done = run(world, **settings)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (world / "venv").exists()


def test_a_python_without_venv_is_passed_over_for_one_with(world):
    fake_python(world / "bin" / "python3.11", "3.11.2", has_venv=False)
    fake_python(world / "bin" / "python3.10", "3.10.13")
    done = run(world)
    assert done.returncode == 0, done.stderr
    assert f"using {world}/bin/python3.10" in done.stderr


def test_a_broken_folder_is_named_and_left(world):
    fake_python(world / "bin" / "python3.11", "3.11.7")
    (world / "venv").mkdir()
    (world / "venv" / "mine").write_text("keep")
    done = run(world)
    assert done.returncode == 1
    assert "has no Python 3.10 to 3.12 that runs" in done.stderr
    assert (world / "venv" / "mine").read_text() == "keep"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("quickstart", '".venv/bin/python" examples/quickstart/run.py'),
        ("test", '".venv/bin/python" -m pytest'),
        ("lint", '".venv/bin/python" -m ruff check .'),
        ("theory", '".venv/bin/python" examples/ising/run.py'),
    ],
)
def test_every_target_makes_the_environment_first(target, command):
    # Variables of a make above this test would change the commands.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for name in ("VENV", "EXTRAS", "TESTS"):
        environment.pop(name, None)
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    lines = done.stdout.split("\n")
    assert done.returncode == 0, done.stderr
    assert lines[0] == 'sh scripts/environment.sh ".venv" "test,plot,fast"'
    assert command in done.stdout


def test_scripts_parse():
    assert subprocess.run(["sh", "-n", str(SCRIPT)]).returncode == 0
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert subprocess.run(["bash", "-n", str(ci)]).returncode == 0
