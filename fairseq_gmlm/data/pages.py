"""Parts of a Markdown page that a program writes: what stands between two marks."""

from pathlib import Path

from fairseq_gmlm.data.files import atomic_write
from fairseq_gmlm.errors import UserError


def write_into(path: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` of a page.

    Raises:
        UserError: there is no such file, or no such marks in it.
    """
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if not path.is_file():
        raise UserError(f"no report at {path}; give a Markdown file with {first} and {last} in it")
    before, begin, rest = path.read_text("utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise UserError(f"{path} has no lines {first} and {last} to write between")
    with atomic_write(path) as stream:
        stream.write(f"{before}{begin}\n\n{text}\n\n{end}{after}")
