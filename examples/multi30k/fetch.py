"""Get Multi30k's raw text (English-German, task 1) from its public repository.

    python examples/multi30k/fetch.py --output FOLDER

The captions are for research and education only: they are not part of this project, and what is made
from them must not be published with it.
"""

import argparse
import gzip
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import List, Optional

REPOSITORY = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SPLITS = {"train": 29000, "val": 1014, "test_2016_flickr": 1000}
LANGUAGES = ("en", "de")


def fetch(source: str, output: Path) -> None:
    """Get every file that is not there yet.

    Args:
        source: address of the folder that holds SPLIT.LANGUAGE.gz.
        output: folder to write SPLIT.LANGUAGE into.

    Raises:
        OSError: a file could not be had; it is named.
        ValueError: a file has another number of lines than Multi30k's.
    """
    output.mkdir(parents=True, exist_ok=True)
    for split, expected in SPLITS.items():
        for language in LANGUAGES:
            name = f"{split}.{language}"
            if (output / name).is_file():
                continue
            address = f"{source.rstrip('/')}/{name}.gz"
            try:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    text = gzip.decompress(answer.read())
            except OSError as error:
                raise OSError(f"{address}: {error}") from error
            lines = text.decode("utf-8").rstrip("\n").split("\n")
            if len(lines) != expected:
                raise ValueError(f"{address}: {len(lines)} lines, not {expected}")
            partial = output / f"{name}.partial"
            partial.write_bytes(text)
            partial.replace(output / name)


def main(argv: Optional[List[str]] = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to fill")
    parser.add_argument("--source", default=REPOSITORY, metavar="URL", help="default: %(default)s")
    args = parser.parse_args(argv)
    try:
        fetch(args.source, args.output)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{args.output} holds {', '.join(SPLITS)} in {', '.join(LANGUAGES)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
