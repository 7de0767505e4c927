"""fairseq's binarised folders: file names, binarising, reading, checking dictionaries."""

import contextlib
import logging
import re
import struct
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from fairseq.data import Dictionary, indexed_dataset

from fairseq_gmlm.data.files import named_when_full
from fairseq_gmlm.data.whole import check_index
from fairseq_gmlm.data.workers import in_a_group
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)


class Languages(NamedTuple):
    """Source and target language, as they stand in file names."""

    source: str
    target: str


def prefix_of(folder: Path, split: str, languages: Languages, language: str) -> Path:
    """Path of a binarised file without its ``.bin`` or ``.idx``."""
    return folder / f"{split}.{languages.source}-{languages.target}.{language}"


def find_languages(folder: Path) -> Languages:
    """The language pair of a data-bin.

    Raises:
        UserError: when there is no binarised train split, or more than one pair.
    """
    pairs = set()
    for path in folder.glob("train.*-*.*.idx"):
        match = re.fullmatch(r"train\.(?P<s>[^.-]+)-(?P<t>[^.-]+)\.(?P<l>[^.]+)\.idx", path.name)
        if match and match["l"] in (match["s"], match["t"]):
            pairs.add(Languages(match["s"], match["t"]))
    if len(pairs) != 1:
        found = ", ".join(sorted("-".join(pair) for pair in pairs)) or "none"
        raise UserError(
            f"{folder}: expected train.SRC-TGT.SRC.idx of one language pair, found {found}; "
            "make the folder with fairseq-gmlm prepare or fairseq-preprocess"
        )
    return pairs.pop()


def load_dictionary(folder: Path, language: str) -> Dictionary:
    """Read ``dict.LANGUAGE.txt``.

    Raises:
        UserError: when it is missing or damaged.
    """
    path = folder / f"dict.{language}.txt"
    if not path.is_file():
        raise UserError(f"no such file: {path}: is {folder} a binarised folder of fairseq?")
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises plain Exception for a wrong encoding
        raise UserError(f"{path}: not a dictionary of fairseq ({error})") from error


def load_split(prefix: Path) -> Any:
    """The indexed dataset of one side of a split: item i is an int tensor (T,) that ends in eos.

    Raises:
        UserError: when a file is missing or damaged.
    """
    index = prefix.with_name(f"{prefix.name}.idx")
    if not index.is_file():
        raise UserError(f"no such file: {index}")
    check_index(index)
    try:
        impl = indexed_dataset.infer_dataset_impl(str(prefix))
        dataset = indexed_dataset.make_dataset(str(prefix), impl, fix_lua_indexing=True)
    except (OSError, ValueError, AssertionError, struct.error) as error:
        raise UserError(f"{prefix}.idx: damaged ({error})") from error
    if dataset is None:
        raise UserError(f"{prefix}.idx: not an index of fairseq")
    return dataset


def count_sentences(prefix: Path) -> int:
    """Number of sentences in one side of a split."""
    return len(load_split(prefix))


@contextlib.contextmanager
def _own_log_handlers(name: str) -> Iterator[None]:
    """fairseq's preprocess adds a file handler and leaves it; take it away again."""
    log = logging.getLogger(name)
    before = list(log.handlers)
    try:
        yield
    finally:
        for handler in [handler for handler in log.handlers if handler not in before]:
            log.removeHandler(handler)
            handler.close()


def binarise(
    prefixes: Dict[str, Path],
    destination: Path,
    languages: Languages,
    joined: bool,
    dictionaries: Tuple[Optional[Path], Optional[Path]] = (None, None),
    workers: int = 1,
) -> None:
    """Run fairseq's own preprocess.

    Args:
        prefixes: ``train``, ``valid``, ``test``, ``test1`` ... to the path of the segmented text
            without its language.
        joined: one dictionary for both sides.
        dictionaries: source and target dictionary to use instead of building them.
    """
    from fairseq import options
    from fairseq_cli import preprocess

    arguments: List[str] = ["--source-lang", languages.source, "--target-lang", languages.target]
    arguments += ["--destdir", str(destination), "--workers", str(workers)]
    for kind in ("train", "valid", "test"):
        names = [name for name in prefixes if name.startswith(kind)]
        if names:
            arguments += [f"--{kind}pref", ",".join(str(prefixes[name]) for name in names)]
    if joined:
        arguments.append("--joined-dictionary")
    for option, path in zip(("--srcdict", "--tgtdict"), dictionaries):
        if path is not None:
            arguments += [option, str(path)]
    parsed = options.get_preprocessing_parser().parse_args(arguments)

    def run() -> None:
        with _own_log_handlers(preprocess.logger.name), named_when_full(destination):
            preprocess.main(parsed)

    if workers < 2:
        run()
    else:
        in_a_group(run)
