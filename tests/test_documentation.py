"""Documents say what is true: options are generated, commands run, links lead somewhere."""

import gzip
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> List[str]:
    """Code blocks of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_options_page_is_generated() -> None:
    spec = importlib.util.spec_from_file_location("page", ROOT / "scripts" / "options_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "options.md").read_text("utf-8") == module.page()


def test_local_links_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    missing = []
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if not (page.parent / target).exists():
                missing.append(f"{page.name}: {target}")
    assert not missing


def shortened_data(folder: Path) -> Path:
    """The quickstart's data with few lines."""
    folder.mkdir()
    for path in (ROOT / "examples" / "quickstart" / "data").glob("*.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            kept = [line for _, line in zip(range(300 if "train" in path.name else 20), lines)]
        with gzip.open(folder / path.name, "wt", encoding="utf-8") as stream:
            stream.writelines(kept)
    return folder


def adapted(text: str, folder: Path) -> str:
    """The same command at a size for a test: other folders, few updates, short outputs."""
    text = text.replace("examples/quickstart/data", str(folder / "data"))
    text = text.replace("examples/quickstart/systems.yaml", str(folder / "systems.yaml"))
    text = text.replace("outputs/tour", str(folder / "tour"))
    text = re.sub(r"--max-update \d+", "--max-update 20 --num-workers 0 --data-buffer-size 0", text)
    text = re.sub(r"--bpe-merges \d+", "--bpe-merges 100", text)
    text = re.sub(r"--max-tokens \d+", "--max-tokens 2048 --max-target-positions 64", text)
    text = text.replace("fairseq-gmlm distill", "fairseq-gmlm distill --max-len-b 10 --max-len-a 1")
    return text


@pytest.mark.slow
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    """The tour in order, with the same words; only sizes and folders differ."""
    shortened_data(tmp_path / "data")
    systems = (ROOT / "examples" / "quickstart" / "systems.yaml").read_text("utf-8")
    (tmp_path / "systems.yaml").write_text(adapted(systems, tmp_path), "utf-8")
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    ran = 0
    for block in blocks("bash"):
        if re.match(r"(make|pip) ", block):  # .ci/run does these
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", adapted(block, tmp_path)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
        if "fairseq-interactive" in block:
            assert re.search(r"^H-0\t", done.stdout, re.MULTILINE)
        ran += 1
    assert ran == 14
    (python,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", adapted(python, tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()
