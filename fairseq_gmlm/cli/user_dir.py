"""Print the folder to give to fairseq's --user-dir."""

import argparse
from pathlib import Path

HELP = "print the folder to give to --user-dir"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the path of the installed package."""
    print(Path(__file__).resolve().parents[1])
    return 0
