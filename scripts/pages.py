"""Parts of a page that a script writes: what stands between two marks."""

from pathlib import Path


def put(page: Path, name: str, content: str) -> None:
    """Replace what stands between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``.

    Raises:
        ValueError: the marks are not there.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = page.read_text("utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise ValueError(f"{page} has no lines {begin} and {end}")
    page.write_text(f"{before}{begin}\n{content}\n{end}{after}", "utf-8")
