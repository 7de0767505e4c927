"""Versions of what a file was made with, for side-car files."""

import platform
from importlib import metadata
from typing import Dict

from fairseq_gmlm.version import __version__

# One code base under three names; whichever is installed gives the module ``fairseq``.
FAIRSEQ = ("fairseq", "ve-fairseq", "fairseq-fixed")


def installed_versions(*packages: str) -> Dict[str, str]:
    """Package name to version, for ``packages`` and what every command runs on."""
    versions = {"fairseq-gmlm": __version__, "python": platform.python_version()}
    for name in (*FAIRSEQ, "torch", *packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
