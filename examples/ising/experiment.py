"""An experiment as a list of cells, each computed once and remembered until the run is over."""

import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List

from tqdm import tqdm

Cell = Dict[str, Any]
Rows = List[Dict[str, Any]]


@dataclass
class Experiment:
    """One experiment.

    Attributes:
        name: of the CSV and the picture.
        cells: maps ``quick`` to the settings of the cells, as JSON can hold them.
        compute: maps a cell to rows of the CSV (numbers and words by column); the cell's own
            settings are added to each.
    """

    name: str
    cells: Callable[[bool], List[Cell]]
    compute: Callable[[Cell], Rows]

    def run(self, folder: Path, quick: bool) -> Dict[str, float]:
        """Compute the missing cells and write ``<name>.csv``.

        Args:
            folder: of the CSV; finished cells are kept in ``folder/progress``.
            quick: the small version.

        Returns:
            ``seconds`` and ``cpu_seconds`` spent computing, those of interrupted runs included.
        """
        log = folder / "progress" / f"{self.name}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        finished = self._finished(log)
        rows: Rows = []
        spent = {"seconds": 0.0, "cpu_seconds": 0.0}
        with log.open("a", encoding="utf-8") as stream:
            for cell in tqdm(self.cells(quick), desc=self.name, unit="cell"):
                key = json.dumps(cell, sort_keys=True)
                if key not in finished:
                    start = (time.perf_counter(), time.process_time())
                    computed = [{**cell, **row} for row in self.compute(cell)]
                    entry = {
                        "rows": computed,
                        "seconds": time.perf_counter() - start[0],
                        "cpu_seconds": time.process_time() - start[1],
                    }
                    stream.write(json.dumps({"cell": key, **entry}) + "\n")
                    stream.flush()
                    finished[key] = entry
                rows += finished[key]["rows"]
                for name in spent:
                    spent[name] += finished[key][name]
        write_csv(folder / f"{self.name}.csv", rows)
        return spent

    @staticmethod
    def _finished(log: Path) -> Dict[str, Any]:
        finished: Dict[str, Any] = {}
        if not log.exists():
            return finished
        whole = ""
        for line in log.read_text("utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # the line that an interruption cut short
            finished[entry["cell"]] = entry
            whole += line + "\n"
        # Rewritten so that the next line does not grow out of a cut one.
        log.write_text(whole, "utf-8")
        return finished


def write_csv(path: Path, rows: Rows) -> None:
    """All rows under the union of their columns, in order of first appearance."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: _short(v) for k, v in row.items()})


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
