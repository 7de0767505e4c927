"""Replace the train targets of a data-bin by an autoregressive teacher's translations.

    fairseq-gmlm distill --path teacher.pt --data data-bin --destdir data-bin-distilled

Valid, test, dictionaries and train sources are copied byte for byte. A run that was killed goes on
when the same command is started again. On many machines that share the folder (or whose
DIR.partial/chunk-*.npz are copied together afterwards):

    fairseq-gmlm distill ... --shards 8 --shard 0      # and 1 to 7 elsewhere
    fairseq-gmlm distill ... --merge
"""

import argparse
from pathlib import Path

from fairseq_gmlm.errors import UserError

HELP = "replace train targets by a teacher's translations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options, with fairseq's names where it has them."""
    add = parser.add_argument
    add("--path", type=Path, required=True, metavar="FILE", help="the teacher's checkpoint")
    add("--data", type=Path, required=True, metavar="DIR", help="data-bin with raw targets")
    add("--destdir", type=Path, required=True, metavar="DIR", help="data-bin to make")
    add(
        "--engine",
        choices=["fairseq", "ctranslate2"],
        default="fairseq",
        help="ctranslate2 is several times faster on a CPU and needs the extra 'fast' "
        "(default: fairseq)",
    )
    add(
        "--compute-type",
        metavar="TYPE",
        help="ctranslate2: int8, int8_float32, float32, float16 ... (default: int8)",
    )
    add("--beam", type=int, default=5, metavar="N", help="beam size (default: 5)")
    add("--lenpen", type=float, default=1.0, metavar="X", help="length penalty (default: 1)")
    add("--max-len-a", type=float, default=0.0, metavar="A", help="targets have at most ...")
    add("--max-len-b", type=int, default=200, metavar="B", help="... A * source + B tokens")
    add("--batch-size", type=int, metavar="N", help="at most N sentences at a time")
    add(
        "--max-tokens",
        type=int,
        metavar="N",
        help="at most N source tokens at a time, padding counted (default: 1000 for ctranslate2 on a "
        "CPU, whose cache they should fit, else 4000)",
    )
    add("--shards", type=int, default=1, metavar="N", help="number of machines (default: 1)")
    add("--shard", type=int, metavar="K", help="which of them this is, from 0; --merge follows")
    add("--merge", action="store_true", help="check that all shards are there, and put together")
    add(
        "--chunk-size",
        type=int,
        default=5000,
        metavar="N",
        help="sentences between two points that a killed run goes on from (default: 5000)",
    )
    add("--teacher-data", type=Path, metavar="DIR", help="folder with the teacher's dictionaries")
    add("--threads", type=int, default=0, metavar="N", help="CPU threads (default: torch's)")
    add("--cpu", action="store_true", help="do not use a GPU")


def _check(args: argparse.Namespace) -> None:
    at_least_one = ("beam", "batch_size", "max_tokens", "shards", "chunk_size")
    for name, least in [*((name, 1) for name in at_least_one), ("threads", 0), ("max_len_b", 0)]:
        value = getattr(args, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be {least} or more")
    if args.max_len_a < 0 or (args.max_len_a == 0 and args.max_len_b == 0):
        raise UserError("--max-len-a and --max-len-b allow no token at all: raise one of them")
    if args.shard is not None and not 0 <= args.shard < args.shards:
        raise UserError(f"--shard {args.shard}: must be 0 to {args.shards - 1} with these --shards")
    if args.shard is None and args.shards > 1 and not args.merge:
        raise UserError(f"--shards {args.shards} needs --shard K (0 to {args.shards - 1})")
    if args.merge and args.shard is not None:
        raise UserError("--merge follows when all shards are done: give it without --shard")
    if args.compute_type is not None and args.engine != "ctranslate2":
        raise UserError("--compute-type needs --engine ctranslate2")


def run(args: argparse.Namespace) -> int:
    """Distil a shard, or everything, or merge; print what was made.

    Raises:
        UserError: for options that contradict each other, and a teacher or folder that does not fit.
    """
    _check(args)
    from fairseq_gmlm.data.beam_search import SearchOptions
    from fairseq_gmlm.data.distillation import Distillation, claim, run_shard
    from fairseq_gmlm.data.files import plain_os_errors
    from fairseq_gmlm.data.merging import merge

    compute_type = args.compute_type or ("int8" if args.engine == "ctranslate2" else None)
    job = Distillation(
        teacher=args.path,
        data=args.data,
        destination=args.destdir,
        engine=args.engine,
        compute_type=compute_type,
        search=SearchOptions(args.beam, args.lenpen, args.max_len_a, args.max_len_b),
        chunk_size=args.chunk_size,
        teacher_data=args.teacher_data,
    )
    with plain_os_errors():
        options = claim(job)
        if options is None:
            print(f"{args.destdir} holds this distillation already")
            return 0
        if not args.merge:
            run_shard(
                job,
                options,
                args.shard or 0,
                args.shards,
                args.max_tokens,
                args.batch_size,
                args.cpu,
                args.threads,
            )
        if args.shard is not None:
            print(f"shard {args.shard} of {args.shards} is done in {job.work}")
            return 0
        record = merge(job, options)
    counts = record["counts"]
    kept = {k: n for k, n in counts.items() if n and k not in ("sentences", "translated")}
    print(f"distilled {counts['translated']} of {counts['sentences']} sentences")
    for reason, number in kept.items():
        print(f"kept the reference of {number} ({reason.replace('_', ' ')})")
    print(f"wrote {args.destdir}")
    return 0
