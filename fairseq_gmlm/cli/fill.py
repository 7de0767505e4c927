r"""Complete templates with a masked language model.

    echo 'The ___ sat on ___{2,4} .' | fairseq-gmlm fill --path CHECKPOINT --data DATA_BIN

A template is a line of text with blanks: ___ (one token, or --blank-length), ___{3} (three tokens),
___{2,5} (two to five; the best of all lengths is taken). \_ is an underscore of the text. Lengths
count the model's tokens, which are subwords after BPE. Given text is never changed; ___{20} alone
is a text of twenty tokens. One line is written for each template. A template with a fault gives an
empty line, a message with line and column on standard error, and exit status 1 at the end.
"""

import argparse
import sys
from typing import IO, Any, Iterator, List, Tuple

from fairseq_gmlm.errors import UserError

HELP = "complete templates with a masked language model"

_DECODING = (
    "decode_strategy", "decode_order", "decode_order_file", "positions_per_pass",
    "decode_threshold", "gibbs_block", "mask_schedule", "decode_start", "rejecter", "remasking",
)  # fmt: skip
_DEFAULTS = {"decode_strategy": "any-order", "decode_order": "surest-first"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, templates, decoding and tokenisation."""
    from fairseq_gmlm.cli.loading import add_model_arguments
    from fairseq_gmlm.data.codec import add_codec_arguments

    add_model_arguments(parser)
    add = parser.add_argument
    add("--input", default="-", metavar="FILE", help="templates (default: standard input)")
    add("--blank-length", default="1", metavar="N[,M]", help="of a blank without one (default: 1)")
    add("--max-lengths", type=int, default=64, metavar="N",
        help="most combinations of lengths of a template (default: 64)")  # fmt: skip
    add(
        "--samples", type=int, default=1, metavar="N", help="chains for each combination of lengths"
    )
    add("--nbest", type=int, default=1, metavar="N",
        help="write up to N completions: line number, rank, score and text, tab-separated")  # fmt: skip
    add("--keep-unknown", action="store_true",
        help="given words that the model does not know stay; it reads them as unknown")  # fmt: skip
    add(
        "--rank",
        choices=["pseudo", "chain"],
        default="pseudo",
        help="how completions of one template compare: pseudo-log-likelihood of the whole text a "
        "token (one more model run for each token), or log-probability of the filled tokens when "
        "they were chosen (default: pseudo)",
    )
    group = parser.add_argument_group("decoding")
    _add_decoding(group)
    add = group.add_argument
    add("--passes", type=int, default=0, metavar="N",
        help="most model runs (default: as many as there are tokens to fill; refine, mask-predict "
        "and gibbs: 10)")  # fmt: skip
    add("--sampling", action="store_true", help="sample tokens instead of taking the best")
    add("--temperature", type=float, default=1.0, metavar="T", help="of sampling (default: 1)")
    add("--sampling-topk", type=int, default=-1, metavar="K", help="sample among the K likeliest")
    add("--sampling-topp", type=float, default=-1.0, metavar="P",
        help="sample among the likeliest tokens with probability P together")  # fmt: skip
    add("--lenpen", type=float, default=1.0, metavar="A",
        help="--rank chain: scores are summed log-probabilities / number of filled tokens ** A")  # fmt: skip
    add("--allow-unk", action="store_true", help="the unknown symbol may be filled in")
    add_codec_arguments(parser)


def _add_decoding(group: Any) -> None:
    """The task's decoding options, with their names, values and help texts."""
    from fairseq_gmlm.decoding.config import DecodingConfig

    for name in _DECODING:
        item = DecodingConfig.__dataclass_fields__[name]
        default = _DEFAULTS.get(name, item.default)
        values = {"default": default, "help": f"{item.metadata['help']} (default: {default})"}
        choices = getattr(item.type, "__members__", None)
        if choices:
            values["choices"] = [str(choice.value) for choice in choices.values()]
        elif isinstance(default, (int, float)):
            values["type"] = type(default)
        group.add_argument("--" + name.replace("_", "-"), **values)


def run(args: argparse.Namespace) -> int:
    """Fill all templates of ``args.input``.

    Returns:
        1 if any template had a fault, else 0.

    Raises:
        UserError: options or files at fault.
    """
    filler = _filler(args)
    if args.input == "-":
        return _fill(filler, _numbered(sys.stdin.buffer, "standard input"), args)
    try:
        stream = open(args.input, "rb")  # noqa: SIM115  (what is written may fail, too)
    except OSError as error:
        raise UserError(f"--input {args.input}: {error.strerror or error}") from error
    with stream:
        return _fill(filler, _numbered(stream, args.input), args)


def _filler(args: argparse.Namespace) -> Any:
    from fairseq_gmlm.cli.loading import load_models
    from fairseq_gmlm.data.codec import Codec
    from fairseq_gmlm.decoding.filling import FillOptions, TemplateFiller
    from fairseq_gmlm.decoding.lm_generator import TextGenerator
    from fairseq_gmlm.decoding.options import DecodingOptions
    from fairseq_gmlm.decoding.strategies import build_strategy
    from fairseq_gmlm.decoding.templates import parse_length
    from fairseq_gmlm.words import guess_marker, word_table

    for name in ("samples", "nbest", "max_lengths"):
        if getattr(args, name) < 1:
            raise UserError(
                f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}"
            )
    if args.passes < 0:
        raise UserError(f"--passes must be at least 0, not {args.passes}")
    if args.max_lengths * args.samples > 1 << 20:
        raise UserError("--max-lengths times --samples must be at most 1048576; lower one")
    if args.sampling and not args.temperature > 0:
        raise UserError(f"--temperature must be above 0, not {args.temperature}")
    try:
        blank = parse_length(f"{{{args.blank_length}}}")
    except ValueError as error:
        raise UserError(f"--blank-length {args.blank_length}: {error}") from error
    generation = argparse.Namespace(**{**vars(args), "nbest": 1})
    try:
        options = DecodingOptions.of(None, generation)
        strategy = build_strategy(options.decode_strategy, options)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.samples > 1 and options.choice.greedy and not options.random_chains:
        raise UserError(
            f"--samples {args.samples} would be equal; add --sampling, or --decode-order random"
        )
    codec = Codec.of(args)
    models, task = load_models(args)
    dictionary = task.source_dictionary
    table = word_table(dictionary.symbols, guess_marker(dictionary.symbols))
    try:
        generator = TextGenerator(
            models,
            strategy,
            options.choice,
            passes=args.passes,
            seed=args.seed,
            allow_unk=args.allow_unk,
            max_tokens=args.max_tokens,
            length_penalty=args.lenpen,
            table=table,
        )
    except ValueError as error:
        raise UserError(f"--path {args.path}: {error}") from error
    settings = FillOptions(
        blank, args.max_lengths, args.samples, args.nbest, args.rank, args.keep_unknown
    )
    return TemplateFiller(generator, dictionary, codec, settings)


def _numbered(stream: IO[bytes], name: str) -> Iterator[Tuple[str, int, Any]]:
    """Name, number and text of each line; text is None where it is not UTF-8."""
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode("utf-8")) + 1
            print(f"{name}, line {number}, column {column}: not UTF-8 text", file=sys.stderr)
            text = None
        yield name, number, text


def _fill(filler: Any, lines: Iterator[Tuple[str, int, Any]], args: argparse.Namespace) -> int:
    """Lines are completed together, in batches; each is written when its batch is done."""
    from fairseq_gmlm.decoding.templates import TemplateError

    faults, waiting, size = 0, [], 0
    for name, number, text in lines:
        plan = None
        if text is not None:
            try:
                plan = filler.plan(text, number)
            except TemplateError as error:
                message = f"{name}, line {number}, column {error.column}: {error}"
                print(message, file=sys.stderr)
        faults += plan is None
        waiting.append((number, plan))
        size += 0 if plan is None else sum(len(canvas.tokens) + 2 for canvas in plan.canvases)
        if size >= args.max_tokens:
            _write(filler, waiting, args)
            waiting, size = [], 0
    _write(filler, waiting, args)
    return 1 if faults else 0


def _write(filler: Any, waiting: List[Tuple[int, Any]], args: argparse.Namespace) -> None:
    try:
        results = iter(filler.fill([plan for _, plan in waiting if plan is not None]))
    except ValueError as error:  # an order that the file does not have, say
        raise UserError(str(error)) from error
    for number, plan in waiting:
        found = [] if plan is None else next(results)
        if args.nbest == 1:
            print(found[0].text if found else "")
        elif not found:
            print(f"{number}\t\t\t")
        for rank, item in enumerate(found if args.nbest > 1 else [], 1):
            print(f"{number}\t{rank}\t{item.score:.4f}\t{item.text}")
    sys.stdout.flush()
