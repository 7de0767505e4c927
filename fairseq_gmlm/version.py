"""The version of the package, read by setup.py without importing anything else."""

__version__ = "0.1.0"
