"""Finished parts of a comparison, kept in files that their content names."""

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Optional

from fairseq_gmlm.data.files import read_json, write_json


def digest_of(key: Dict[str, Any]) -> str:
    """SHA-256 of a key in one spelling, whatever the order of its names."""
    spelt = json.dumps(key, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(spelt.encode("ascii")).hexdigest()


class Cells:
    """A store of results by kind and key; without a folder it remembers nothing.

    A key holds all that decides a result. A file holds its key beside the value, so that what it
    is can be read in it, and appears whole or not at all.

    Args:
        folder: made if need be.
    """

    def __init__(self, folder: Optional[Path]) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def _path(self, folder: Path, kind: str, key: Dict[str, Any]) -> Path:
        return folder / f"{kind}-{digest_of(key)[:20]}.json"

    def get(self, kind: str, key: Dict[str, Any]) -> Optional[Any]:
        """The value, or None.

        Raises:
            UserError: the file is damaged; it says which.
        """
        if self.folder is None:
            return None
        path = self._path(self.folder, kind, key)
        return read_json(path)["value"] if path.is_file() else None

    def put(self, kind: str, key: Dict[str, Any], value: Any) -> None:
        """Keep a value."""
        if self.folder is not None:
            write_json(self._path(self.folder, kind, key), {"key": key, "value": value})
