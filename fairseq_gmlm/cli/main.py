"""Entry point of the ``fairseq-gmlm`` command: finds the module of a command and runs it."""

import argparse
import contextlib
import importlib
import logging
import os
import sys
from typing import List, Optional

from fairseq_gmlm.data.files import plain_os_errors
from fairseq_gmlm.errors import UserError
from fairseq_gmlm.version import __version__

# Name typed by the user -> module. A command is imported only when it is used, so that
# ``fairseq-gmlm user-dir`` answers at once.
COMMANDS = {
    "user-dir": "user_dir",
    "prepare": "prepare",
    "distill": "distill",
    "average": "average",
    "warm-start": "warm_start",
    "import-cmlm": "import_cmlm",
    "compare": "compare",
    "analyze": "analyze",
    "trace": "trace",
    "fill": "fill",
    "score": "score",
    "theory": "theory",
}


def build_parser(only: Optional[str] = None) -> argparse.ArgumentParser:
    """The full parser, or one whose only sub-command with arguments is ``only``."""
    parser = argparse.ArgumentParser(
        prog="fairseq-gmlm", description="Tools of the generative masked language model plugin."
    )
    parser.add_argument("--version", action="version", version=f"fairseq-gmlm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module_name in COMMANDS.items():
        if only is not None and name != only:
            commands.add_parser(name)
            continue
        module = importlib.import_module(f"fairseq_gmlm.cli.{module_name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that Python does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush() -> None:
    """Write what was printed, while a full disk can still be told from success."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise UserError(f"standard output: {error.strerror or error}") from error


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 when the command found a fault it reports itself, 2 for a user error,
        130 after Ctrl-C.
    """
    argv = sys.argv[1:] if argv is None else argv
    only = argv[0] if argv and argv[0] in COMMANDS else None
    args = build_parser(only).parse_args(argv)
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%H:%M:%S",
        level=os.environ.get("LOGLEVEL", "INFO").upper(),
        stream=sys.stderr,
    )
    try:
        with plain_os_errors():
            status = args.run(args) or 0
        _flush()
        return status
    except UserError as error:
        print(f"fairseq-gmlm {args.command}: error: {error}", file=sys.stderr)
        with contextlib.suppress(UserError, BrokenPipeError):
            _flush()
        return 2
    except BrokenPipeError:
        # The reader of our output (``head``, say) went away: not a fault of ours.
        _drop_output()
        return 1
    except KeyboardInterrupt:
        print(f"fairseq-gmlm {args.command}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
