r"""Show what a chain does to sentences, pass by pass.

    fairseq-gmlm trace --path CHECKPOINT --data DATA_BIN --ids 0,7,20-22 --html trace.html
    echo 'A dog runs .' | fairseq-gmlm trace --path CHECKPOINT --data DATA_BIN \
        --tokenizer moses --bpe subword_nmt --bpe-codes DATA_BIN/bpecodes

Sentences are those of --ids in --gen-subset, or lines of --input (default: standard input), which
are cut as the data were. Each pass is a row of tokens with their probabilities, and marks for what
was predicted, changed, rejected, remasked and kept. --html writes one file that needs no other and
no network; its attention appears under the pointer or the arrow keys.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_gmlm.errors import UserError

HELP = "show what a chain does to sentences, pass by pass"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, sentences, decoding, outputs and tokenisation."""
    from fairseq_gmlm.cli.loading import add_decoding_arguments, add_model_arguments
    from fairseq_gmlm.data.codec import add_codec_arguments

    add_model_arguments(parser)
    add_decoding_arguments(parser)
    add = parser.add_argument
    add("--ids", metavar="LIST", help="sentences of the split by number from 0: 0,7,20-22")
    add("--gen-subset", default="test", metavar="SPLIT", help="split of --ids (default: test)")
    add("--input", default="-", metavar="FILE", help="lines of text (default: standard input)")
    add("--candidates", type=int, default=1, metavar="N",
        help="trace the N best candidates of each sentence (default: 1)")  # fmt: skip
    add("--attention-layers", type=int, default=0, metavar="N",
        help="read the decoder's last N layers (default: all)")  # fmt: skip
    add("--attention-heads", choices=["mean", "max"], default="mean",
        help="how heads are put together (default: mean)")  # fmt: skip
    add("--html", metavar="FILE", help="write a page instead of text")
    add("--json", metavar="FILE", help="write everything as JSON too")
    add("--color", choices=["auto", "always", "never"], default="auto",
        help="colours in the terminal (default: auto; NO_COLOR switches them off)")  # fmt: skip
    add_codec_arguments(parser)


def parse_ids(text: str) -> List[int]:
    """Numbers and ranges, in the order given, each once.

    >>> parse_ids("7,0-2,7")
    [7, 0, 1, 2]

    Raises:
        UserError: anything else.
    """
    found: Dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if last < first:
            raise UserError(f"--ids {text}: {part!r} is no number or range; expected 0,7,20-22")
        found.update(dict.fromkeys(range(first, last + 1)))
    return list(found)


def run(args: argparse.Namespace) -> int:
    """Trace and print, or write a page.

    Raises:
        UserError: options or files at fault.
    """
    from fairseq_gmlm.analysis.decoder import Decoder
    from fairseq_gmlm.analysis.tracing import Tracer
    from fairseq_gmlm.cli.loading import decoding_values, load_models
    from fairseq_gmlm.data.codec import Codec
    from fairseq_gmlm.data.files import check_target

    for name, least in (("candidates", 1), ("attention_layers", 0)):
        if getattr(args, name) < least:
            raise UserError(
                f"--{name.replace('_', '-')} must be at least {least}, not {getattr(args, name)}"
            )
    for name in ("json", "html"):
        check_target(getattr(args, name), f"--{name}")
    ids = None if args.ids is None else parse_ids(args.ids)
    codec = Codec.of(args)
    models, task = load_models(args)
    values = decoding_values(args)
    decoder = Decoder(models, task, values, args.seed)
    if not decoder.is_gmlm:
        raise UserError(
            f"--path {args.path}: a {type(models[0]).__name__} keeps no history of its passes; "
            "trace a gmlm_transformer (fairseq-gmlm import-cmlm makes one of a cmlm_transformer)"
        )
    if decoder.survivors > 1:  # the scores of all are shown
        decoder = Decoder(models, task, {**values, "nbest": decoder.survivors}, args.seed)
    dataset, numbers = _lines(args, decoder, codec) if ids is None else _split(args, decoder, ids)
    tracer = Tracer(decoder, args.candidates, args.attention_layers, args.attention_heads)
    traces = {}
    for batch in decoder.batches(dataset, numbers, args.max_tokens):
        traces.update({trace.number: trace for trace in tracer(batch)})
    _write(args, [traces[number] for number in numbers if number in traces], values)
    return 0


def _split(args: argparse.Namespace, decoder: Any, ids: List[int]) -> Tuple[Any, List[int]]:
    """Sentences of a data-bin."""
    dataset, _ = decoder.split(args.gen_subset)
    beyond = [number for number in ids if number >= len(dataset)]
    if beyond:
        raise UserError(
            f"--ids {beyond[0]}: {args.gen_subset} has {len(dataset)} sentences, numbered from 0"
        )
    return dataset, ids


def _lines(args: argparse.Namespace, decoder: Any, codec: Any) -> Tuple[Any, List[int]]:
    """Sentences that a user gives."""
    from fairseq_gmlm.data.lines import read_lines

    if args.input == "-":
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"standard input: not UTF-8 text ({error})") from error
        lines = text.split("\n")[: None if not text.endswith("\n") else -1]
    elif Path(args.input).is_file():
        lines = list(read_lines(Path(args.input)))
    else:
        raise UserError(f"--input {args.input}: no such file")
    if not any(line.strip() for line in lines):
        raise UserError("no sentence to trace: give --ids, --input or lines on standard input")
    dictionary = decoder.task.source_dictionary
    tokens = [
        dictionary.encode_line(" ".join(codec.encode(line)), add_if_not_exist=False).long()
        for line in lines
    ]
    dataset = decoder.task.build_dataset_for_inference(tokens, [len(t) for t in tokens])
    return dataset, list(range(len(lines)))


def _write(args: argparse.Namespace, traces: List[Any], values: Dict[str, Any]) -> None:
    from fairseq_gmlm.analysis.trace_page import trace_json, trace_page
    from fairseq_gmlm.analysis.trace_text import LEGEND, trace_text
    from fairseq_gmlm.data.files import atomic_write, plain_os_errors, write_json

    with plain_os_errors():
        if args.json:
            write_json(Path(args.json), trace_json(traces))
        if args.html:
            about = {"checkpoint": args.path, "data": args.data, **values}
            with atomic_write(Path(args.html)) as stream:
                stream.write(trace_page(traces, about))
            return
    colour = args.color == "always" or (
        args.color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    )
    room = shutil.get_terminal_size((100, 24)).columns
    print(LEGEND)
    for trace in traces:
        print("\n" + trace_text(trace, room, colour))
