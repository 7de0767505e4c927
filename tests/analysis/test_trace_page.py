"""The page: escaped, self-contained, and used in a real browser."""

import dataclasses
import doctest
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import needs_browser, result_of, screenshot
from chain_examples import trace

from fairseq_gmlm.analysis import trace_page as module
from fairseq_gmlm.analysis.trace_page import embedded_json, trace_page

HOSTILE = "</script><script>document.title='taken'</script><b onclick=\"x\">&amp;'"


def page(chains: int = 1, words: tuple = ("Ein", "Hund", "."), count: int = 2) -> str:
    traces = [trace(words, number, chains) for number in range(count)]
    return trace_page(traces, {"checkpoint": "model.pt", "iter_decode_max_iter": 1})


def hostile_page() -> str:
    given = trace((HOSTILE, "Hund"))
    chains = [dataclasses.replace(chain, text=HOSTILE) for chain in given.chains]
    made = dataclasses.replace(given, source=[HOSTILE, "b", "c"], reference=HOSTILE, chains=chains)
    return trace_page([made], {HOSTILE: HOSTILE})


class Elements(HTMLParser):
    """Collects start tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))


def test_examples() -> None:
    assert doctest.testmod(module).failed == 0


def test_one_file_and_no_network() -> None:
    text = page()
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    for tag, attributes in Elements(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'" in text and "prefers-color-scheme: dark" in text


def test_all_text_is_escaped() -> None:
    text = hostile_page()
    assert text.count("<script") == 2 and HOSTILE not in text
    assert not any(tag == "b" for tag, _ in Elements(text).tags)
    assert not any("onclick" in attributes for _, attributes in Elements(text).tags)
    given = {"a": "</script>&<!--\u2028"}
    embedded = str(embedded_json(given))
    assert json.loads(embedded) == given and not re.search(r"[<>&\u2028]", embedded)


def test_marks_do_not_need_colours() -> None:
    cells = [
        a for tag, a in Elements(page(count=1)).tags if tag == "td" and "cell" in a.get("class", "")
    ]
    assert len(cells) == 2 * 3
    assert cells[2]["class"].split() == [
        "cell", "c2", "predicted", "changed", "rejected", "remasked",
    ]  # fmt: skip
    assert cells[2]["aria-label"] == "., predicted, new, rejected, remasked, 25 per cent"
    assert cells[3]["aria-label"] == "Ein, not predicted, kept, 90 per cent"
    assert [a["tabindex"] for a in cells] == ["0", "-1", "-1", "-1", "-1", "-1"]


PRESS = """
const press = (key, more = {}) => (document.activeElement ?? document.body).dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...more}));
const where = () => { const c = document.activeElement;
  return c.dataset.pass === undefined ? "none" :
    [c.closest(".chain").dataset.sentence, c.closest(".chain").dataset.chain,
     c.dataset.pass, c.dataset.place].join("."); };
const panel = () => document.getElementById("panel").textContent;
"""


@needs_browser
def test_the_keyboard_reaches_every_cell(tmp_path: Path) -> None:
    keys = [
        "n",
        "ArrowRight",
        "ArrowDown",
        "ArrowLeft",
        "ArrowLeft",
        "End",
        "ArrowDown",
        "ArrowUp",
        "Home",
        "n",
        "n",
        "n",
        "p",
        "Escape",
        "p",
    ]
    script = f"{PRESS} return {json.dumps(keys)}.map((key) => {{ press(key); return where(); }}).join(' ')"
    found = result_of(page(chains=2), script, tmp_path).split()
    assert found == [
        "0.0.0.0", "0.0.0.1", "0.0.1.1", "0.0.1.0", "0.0.1.0", "0.0.1.2", "0.0.1.2", "0.0.0.2",
        "0.0.0.0", "0.1.0.0", "1.0.0.0", "1.1.0.0", "1.0.0.0", "none", "1.1.0.0",
    ]  # fmt: skip


@needs_browser
def test_attention_and_state_are_shown_on_focus_and_under_the_pointer(tmp_path: Path) -> None:
    script = f"""{PRESS}
      const shares = () => [...document.querySelectorAll("#s0 .source .share")]
        .map((e) => e.textContent).join("|");
      press("n"); press("End");
      const focused = [panel(), shares(), document.querySelectorAll("#s0 td.attends").length];
      const over = document.querySelector('#s1 td[data-pass="1"][data-place="0"]');
      over.dispatchEvent(new MouseEvent("mouseover", {{bubbles: true}}));
      const hovered = [panel(), document.querySelectorAll(".here").length];
      over.dispatchEvent(new MouseEvent("mouseout", {{bubbles: true}}));
      const back = panel();
      press("Escape");
      return JSON.stringify([focused, hovered, back === focused[0], panel(), shares()]);"""
    focused, hovered, back, idle, shares = json.loads(result_of(page(), script, tmp_path))
    assert focused[0].startswith(
        ". (pass 1, position 3): predicted, new, rejected, remasked; probability 25.0 %"
    )
    # 1 % is below what is drawn.
    assert "source: dog 69 %, </s> 30 %" in focused[0] and "target: Ein 33 %" in focused[0]
    assert focused[1:] == ["|69|30", 3]
    assert (
        hovered[0].startswith("Ein (pass 2, position 1): not predicted, kept") and hovered[1] == 1
    )
    assert back and idle.startswith("Point at a token") and shares == "||"


@needs_browser
def test_a_hostile_text_stays_text(tmp_path: Path) -> None:
    script = f"{PRESS} press('n'); return [document.title, panel()].join('@')"
    title, panel = result_of(hostile_page(), script, tmp_path).split("@", 1)
    assert title == "Trace of 1 sentence"
    assert panel.startswith(HOSTILE) and f"target: {HOSTILE} 50 %" in panel


LUMINANCE = """
const channel = (x) => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
const luminance = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const levels = [...document.querySelectorAll(".ramp span")].map((e) => {
  const s = getComputedStyle(e); return [luminance(s.backgroundColor), luminance(s.color)]; });
return JSON.stringify([levels, luminance(getComputedStyle(document.body).backgroundColor)]);
"""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_ordered_and_legible(scheme: str, tmp_path: Path) -> None:
    levels, ground = json.loads(result_of(page(), LUMINANCE, tmp_path, scheme))
    assert (ground > 0.5) == (scheme == "light")
    backs = [back for back, _ in levels]
    # The surer, the nearer to the ground: one order, whatever the eye makes of hues.
    assert backs == sorted(backs, reverse=scheme == "dark")
    for back, ink in levels:
        bright, dim = max(back, ink), min(back, ink)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5


@needs_browser
def test_screenshots_differ_between_schemes(tmp_path: Path) -> None:
    images = [screenshot(page(), tmp_path, scheme) for scheme in ("light", "dark")]
    assert all(image.startswith(b"\x89PNG") and len(image) > 10000 for image in images)
    assert images[0] != images[1]
