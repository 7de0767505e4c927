"""Packaging of fairseq_gmlm: which fairseq fits which Python is decided by the markers here."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (HERE / "fairseq_gmlm" / "version.py").read_text("utf-8")
).group(1)

# The official fairseq cannot be imported on Python 3.11; ve-fairseq is the same code base as a
# wheel for Linux on x86-64; fairseq-fixed builds from source everywhere else.
WHEEL = "platform_machine == 'x86_64' and sys_platform == 'linux'"
FAIRSEQ = [
    "fairseq==0.12.2; python_version < '3.11'",
    f"ve-fairseq==0.12.3; python_version >= '3.11' and {WHEEL}",
    "fairseq-fixed==0.12.3.1; python_version >= '3.11' and platform_machine != 'x86_64'",
    "fairseq-fixed==0.12.3.1; python_version >= '3.11' and platform_machine == 'x86_64'"
    " and sys_platform != 'linux'",
]

setup(
    name="fairseq-gmlm",
    version=VERSION,
    description="Generative masked language models for translation and text, as a fairseq plugin",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10,<3.13",
    packages=find_packages(include=["fairseq_gmlm", "fairseq_gmlm.*"]),
    package_data={"fairseq_gmlm.analysis": ["page/*"]},
    install_requires=[
        "torch>=2.1",
        *FAIRSEQ,
        "sacremoses>=0.1.1",
        "subword-nmt>=0.3.8",
        "sacrebleu>=2.3.1",
        "tqdm>=4.60",
        "numpy>=1.23.2",
        "pyyaml>=6.0",
        "jinja2>=3.0",
    ],
    extras_require={
        "test": ["pytest>=7.0", "pytest-xdist>=3.0.2", "hypothesis>=6.86", "ruff>=0.6"],
        "plot": ["matplotlib>=3.7"],
        "fast": ["ctranslate2>=4.3.1"],
        "comet": ["unbabel-comet>=2.2"],
    },
    entry_points={"console_scripts": ["fairseq-gmlm = fairseq_gmlm.cli.main:main"]},
)
