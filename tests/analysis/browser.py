"""A headless browser, where there is one."""

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)"
)
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip
_SCHEMES = {"dark": 0, "light": 1}


def _run(page: Path, folder: Path, *extra: str) -> str:
    line = [CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *extra, page.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def result_of(page: str, script: str, folder: Path, scheme: str = "light") -> str:
    """What ``script`` (the body of a function) returns at the end of the page, as text."""
    wrapped = (
        "<pre id=result></pre><script>document.getElementById('result').textContent ="
        f" String((() => {{ {script} }})());</script></body>"
    )
    path = folder / "page.html"
    path.write_text(page.replace("</body>", wrapped), "utf-8")
    dom = _run(
        path, folder, "--dump-dom", f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}"
    )
    return html.unescape(re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)[1])


def screenshot(page: str, folder: Path, scheme: str) -> bytes:
    """A PNG of the page."""
    path, image = folder / f"{scheme}.html", folder / f"{scheme}.png"
    path.write_text(page, "utf-8")
    options: List[str] = [f"--screenshot={image}", "--window-size=1100,900"]
    _run(path, folder, *options, f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}")
    return image.read_bytes()
