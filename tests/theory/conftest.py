"""The reference model of the theory's tests."""

import json
from pathlib import Path
from typing import Any, Dict

import pytest

from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.model_file import read_ising

REFERENCE = Path(__file__).parent / "ising_reference.json"


@pytest.fixture(scope="session")
def reference() -> Dict[str, Any]:
    """Numbers found by an independent exact enumeration."""
    return json.loads(REFERENCE.read_text("utf-8"))


@pytest.fixture(scope="session")
def reference_model() -> IsingModel:
    """The model they belong to."""
    return read_ising(REFERENCE)[0]
