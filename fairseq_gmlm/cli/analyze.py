"""Count a system's error modes: stutter, repeats, dropped and added words, mixed modes.

    fairseq-gmlm analyze --path gmlm/checkpoint_best.pt --data data-bin \\
        --teacher teacher/checkpoint_best.pt --set iter_decode_max_iter=9 --json modes.json
    fairseq-gmlm analyze --data-only raw distilled

The first form decodes a split and looks at the outputs, at every pass of the chain, at the
references and at the teacher's translations. It ends with status 1 if a mask is left in an output.
The second measures how hard the training data of data-bins are. docs/analysis.md has the formulas.
"""

import argparse
import logging
import os
from pathlib import Path
from typing import Any, Dict, Optional

from fairseq_gmlm.errors import UserError

HELP = "count error modes of a system, or measure how hard training data are"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``fairseq-gmlm analyze``."""
    from fairseq_gmlm.cli.loading import add_decoding_arguments, add_model_arguments

    add_model_arguments(parser, required=False)
    add_decoding_arguments(parser)
    add = parser.add_argument
    add("--gen-subset", default="test", metavar="SPLIT", help="what to decode (default: test)")
    add("--sentences", type=int, default=0, metavar="N",
        help="decode N sentences, spread evenly over the split (default: all)")  # fmt: skip
    add("--teacher", metavar="CHECKPOINT",
        help="an autoregressive model: mixed modes, agreement, and its own translations")  # fmt: skip
    add("--nbest", type=int, default=10, metavar="N",
        help="length of the teacher's list for mixed modes (default: 10)")  # fmt: skip
    add("--ngrams", type=int, default=4, metavar="N", help="longest repeats counted (default: 4)")
    add("--no-alignment", action="store_true",
        help="do not fit a word aligner: no dropped and added words")  # fmt: skip
    add("--max-pairs", type=int, default=30000, metavar="N",
        help="training pairs that the word aligner sees, spread evenly (default: 30000)")  # fmt: skip
    add("--attention-layers", type=int, default=0, metavar="N",
        help="read the decoder's last N layers (default: all)")  # fmt: skip
    add("--attention-heads", choices=["mean", "max"], default="mean",
        help="how heads are put together (default: mean)")  # fmt: skip
    add("--bootstrap", type=int, default=1000, metavar="N",
        help="resamples for the 95 %% intervals (default: 1000)")  # fmt: skip
    add("--data-only", nargs="+", metavar="DATA_BIN",
        help="measure these data-bins' training data instead, for example raw and distilled")  # fmt: skip
    add("--json", metavar="FILE", help="write everything")
    add("--plots", metavar="DIR", help="write figures (PNG and SVG)")


def run(args: argparse.Namespace) -> int:
    """Analyse and print tables.

    Returns:
        1 if a mask is left in an output, else 0.

    Raises:
        UserError: options or files at fault.
    """
    from fairseq_gmlm.data.files import check_target

    for name in ("max_pairs", "bootstrap", "nbest", "max_tokens"):
        if getattr(args, name) < 1:
            raise UserError(
                f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}"
            )
    for name in ("sentences", "attention_layers", "ngrams"):
        if getattr(args, name) < 0:
            raise UserError(
                f"--{name.replace('_', '-')} must be at least 0, not {getattr(args, name)}"
            )
    check_target(args.json, "--json")
    if args.data_only:
        return _data(args)
    for name in ("path", "data"):
        if not getattr(args, name):
            raise UserError(f"--{name} is missing (or measure data: --data-only DATA_BIN ...)")
    return _system(args)


def _data(args: argparse.Namespace) -> int:
    """Measure training data."""
    from fairseq_gmlm.analysis.complexity import measure
    from fairseq_gmlm.analysis.report import complexity_table
    from fairseq_gmlm.analysis.words import read_words

    if args.path or args.plots:
        option = "--path" if args.path else "--plots"
        raise UserError(
            f"{option} belongs to the analysis of a system; leave it or --data-only out"
        )
    found = {}
    for folder in args.data_only:
        logger.info(f"{folder}: reading and aligning")
        found[folder] = measure(read_words(Path(folder), args.max_pairs))
    print(complexity_table(found))
    _write(args.json, {name: vars(each) for name, each in found.items()})
    return 0


def _system(args: argparse.Namespace) -> int:
    """Analyse a system."""
    from fairseq_gmlm.analysis.adequacy import WordAligner
    from fairseq_gmlm.analysis.decoder import Decoder
    from fairseq_gmlm.analysis.error_modes import Settings, analyse
    from fairseq_gmlm.analysis.plots import write_plots
    from fairseq_gmlm.analysis.report import as_json, text_report
    from fairseq_gmlm.analysis.words import read_words
    from fairseq_gmlm.cli.loading import decoding_values, load_models

    models, task = load_models(args)
    values = decoding_values(args)
    decoder = Decoder(models, task, values, args.seed)
    teacher = _teacher(args, decoder)
    aligner = None
    if not args.no_alignment:
        logger.info("fitting the word aligner")
        words = read_words(Path(args.data), args.max_pairs)
        aligner = WordAligner(words, task.source_dictionary, task.target_dictionary)
    settings = Settings(
        split=args.gen_subset,
        sentences=args.sentences,
        ngrams=args.ngrams,
        layers=args.attention_layers,
        heads=args.attention_heads,
        max_tokens=args.max_tokens,
        bootstrap=args.bootstrap,
        seed=args.seed,
    )
    modes = analyse(decoder, settings, teacher, aligner)
    print(text_report(modes))
    about = {"path": args.path, "data": args.data, "teacher": args.teacher, "options": values}
    _write(args.json, {**about, "settings": vars(settings), **as_json(modes)})
    if args.plots:
        write_plots(Path(args.plots), modes)
    if modes.mask_leftovers:
        logger.error(f"{modes.mask_leftovers} masks are left in the outputs; there must be none")
    return 1 if modes.mask_leftovers else 0


def _teacher(args: argparse.Namespace, decoder: Any) -> Optional[Any]:
    """The teacher of ``args``, checked against the data."""
    from fairseq_gmlm.analysis.teacher_view import TeacherView
    from fairseq_gmlm.data.databin import find_languages
    from fairseq_gmlm.data.teacher import load_teacher

    if not args.teacher:
        return None
    if not os.path.isfile(args.teacher):
        raise UserError(f"--teacher: no such file: {args.teacher}")
    folder = Path(args.data)
    teacher = load_teacher(Path(args.teacher), folder, find_languages(folder))
    return TeacherView(teacher, args.nbest, max(args.nbest, 5), decoder.device)


def _write(path: Optional[str], value: Dict[str, Any]) -> None:
    from fairseq_gmlm.data.files import plain_os_errors, write_json

    if path is not None:
        with plain_os_errors():
            write_json(Path(path), value)
