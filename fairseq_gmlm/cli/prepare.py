"""Make a data-bin from raw parallel text: sacremoses, subword-nmt, fairseq's preprocess.

    fairseq-gmlm prepare --source-lang en --target-lang de --trainpref corpus/train \\
        --validpref corpus/valid --testpref corpus/test --bpe-merges 8000 --destdir data-bin

Input files are PREFIX.LANG or PREFIX.LANG.gz, UTF-8, aligned line by line. Pairs with an empty side
are dropped from train; valid and test keep every line. An interrupted run that is started again
with the same options goes on.
"""

import argparse
import logging
from pathlib import Path
from typing import Dict, Optional, Tuple

from fairseq_gmlm.errors import UserError

HELP = "make a data-bin from raw parallel text"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options in fairseq's style."""
    add = parser.add_argument
    add("--source-lang", "-s", required=True, metavar="LANG", help="source language, such as en")
    add("--target-lang", "-t", required=True, metavar="LANG", help="target language, such as de")
    add("--trainpref", metavar="PREFIX", help="training files without their language")
    add("--validpref", metavar="P[,P2]", help="validation files, comma separated")
    add("--testpref", metavar="P[,P2]", help="test files, comma separated")
    add("--destdir", type=Path, required=True, metavar="DIR", help="folder to make")
    add("--bpe-merges", type=int, metavar="N", help="number of BPE merges to learn from train")
    add(
        "--bpe-codes",
        metavar="FILE[,FILE2]",
        help="use these codes instead of learning them; two with --separate-bpe",
    )
    add(
        "--separate-bpe",
        action="store_true",
        help="codes and dictionary of each language for itself; joint otherwise",
    )
    add("--srcdict", type=Path, metavar="FILE", help="use this source dictionary")
    add("--tgtdict", type=Path, metavar="FILE", help="use this target dictionary")
    add(
        "--tokenizer",
        choices=["moses", "none"],
        default="moses",
        help="none: the text is tokenised already, words stand between spaces (default: moses)",
    )
    add("--keep-hyphens", action="store_true", help="moses: do not split words at hyphens")
    add("--no-escape", action="store_true", help="moses: do not write &amp; for & and the like")
    add(
        "--max-words",
        type=int,
        metavar="N",
        help="drop training pairs with a side of more than N words after tokenisation",
    )
    add(
        "--max-ratio",
        type=float,
        metavar="R",
        help="drop training pairs whose longer side has more than R times the other's words",
    )
    add("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")


def _prefixes(args: argparse.Namespace) -> Dict[str, str]:
    prefixes: Dict[str, str] = {}
    for kind in ("train", "valid", "test"):
        value = getattr(args, f"{kind}pref")
        if value is None:
            continue
        parts = value.split(",")
        if "" in parts:
            raise UserError(f"--{kind}pref {value!r}: empty prefix")
        if kind == "train" and len(parts) > 1:
            raise UserError(f"--trainpref {value}: one prefix, found {len(parts)}")
        for number, prefix in enumerate(parts):
            prefixes[f"{kind}{number or ''}"] = prefix
    return prefixes


def _codes(args: argparse.Namespace) -> Optional[Tuple[Path, Path]]:
    from fairseq_gmlm.data.subwords import check_codes

    if args.bpe_codes is None:
        return None
    paths = [Path(part) for part in args.bpe_codes.split(",")]
    expected = 2 if args.separate_bpe else 1
    if len(paths) != expected:
        raise UserError(
            f"--bpe-codes {args.bpe_codes}: expected {expected} file(s) "
            f"{'with' if args.separate_bpe else 'without'} --separate-bpe, found {len(paths)}"
        )
    for path in paths:
        if not path.is_file():
            raise UserError(f"--bpe-codes: no such file: {path}")
        check_codes(path)
    return paths[0], paths[-1]


def _check(args: argparse.Namespace) -> None:
    if args.source_lang == args.target_lang:
        raise UserError(f"--source-lang and --target-lang are both {args.source_lang}")
    for name in ("source_lang", "target_lang"):
        value = getattr(args, name)
        if not value or not set(value).isdisjoint("-./ "):
            option = name.replace("_", "-")
            raise UserError(
                f"--{option} {value!r}: fairseq's file names allow no '-', '.', '/' here"
            )
    if not set(str(args.destdir)).isdisjoint(",:"):
        raise UserError(f"--destdir {args.destdir}: fairseq splits paths at ',' and ':'")
    if (args.bpe_merges is None) == (args.bpe_codes is None):
        raise UserError("give one of --bpe-merges N (learn them) and --bpe-codes FILE (use them)")
    for name, least in (("bpe_merges", 1), ("max_words", 1), ("max_ratio", 1), ("workers", 1)):
        value = getattr(args, name)
        if value is not None and not value >= least:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be {least} or more")
    for name in ("srcdict", "tgtdict"):
        path = getattr(args, name)
        if path is not None and not path.is_file():
            raise UserError(f"--{name}: no such file: {path}")
    if args.srcdict and args.tgtdict and not args.separate_bpe:
        raise UserError("--srcdict and --tgtdict together need --separate-bpe: joint BPE has one")
    if args.trainpref is None:
        has_dictionaries = (
            args.srcdict and args.tgtdict if args.separate_bpe else args.srcdict or args.tgtdict
        )
        if args.bpe_codes is None or not has_dictionaries:
            raise UserError(
                "--trainpref is missing: without it, give --bpe-codes and the dictionaries "
                "(--srcdict, and --tgtdict with --separate-bpe)"
            )
    if not (args.trainpref or args.validpref or args.testpref):
        raise UserError("nothing to prepare: give --trainpref, --validpref or --testpref")


def run(args: argparse.Namespace) -> int:
    """Prepare, and print what became of the lines.

    Raises:
        UserError: for options that contradict each other and for faults of the input.
    """
    # Imported late: torch takes seconds, and a mistyped option should be answered at once.
    _check(args)
    from fairseq_gmlm.data.corpus import Filter
    from fairseq_gmlm.data.databin import Languages
    from fairseq_gmlm.data.files import plain_os_errors
    from fairseq_gmlm.data.preparation import Preparation, prepare
    from fairseq_gmlm.data.text import Tokenization

    job = Preparation(
        languages=Languages(args.source_lang, args.target_lang),
        prefixes=_prefixes(args),
        merges=args.bpe_merges,
        codes=_codes(args),
        separate=args.separate_bpe,
        tokenization=Tokenization(args.tokenizer, not args.keep_hyphens, not args.no_escape),
        keep=Filter(args.max_words, args.max_ratio),
        dictionaries=(args.srcdict, args.tgtdict),
    )
    with plain_os_errors():
        record = prepare(job, args.destdir, args.workers)
    for name, counts in record["counts"].items():
        dropped = ", ".join(f"{why} {n}" for why, n in counts["dropped"].items()) or "none"
        print(f"{name}: {counts['kept']} of {counts['read']} pairs (dropped: {dropped})")
    for language, size in record["dictionaries"].items():
        print(f"dictionary {language}: {size} symbols")
    print(f"wrote {args.destdir}")
    return 0
