"""Decoding speed side by side: this plugin, fairseq's CMLM, autoregressive models in two engines.

    python benchmarks/decode.py --quick --json outputs/decode.json
    python benchmarks/decode.py --batch 1 8 16 64 --length 25 --vocabulary 10000 32000 --threads 1 2
    python benchmarks/decode.py --device cuda --batch 1 16 64 256 --dtypes float32 float16 bfloat16

All systems of a setting run in one process, in turn, after a warm-up. Weights are random; this
plugin's are those of fairseq's CMLM. ``equal`` is the share of tokens that are the same as its.
"""

import argparse
import itertools
import logging
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bars import CURVE, GOALS, LENGTHS, systems_of
from engines import Run, Setting, System, build_run
from peak_memory import peak_of
from random_models import Size, cmlm, converted, imported_gmlm, transformer
from reporting import Row, finish
from timing import Times, alternate, paired_ratio

import fairseq_gmlm  # noqa: F401  (registers the plugin)

logger = logging.getLogger("decode")
SHOWN = ("system", "engine", "dtype", "batch", "length", "vocabulary", "threads", "median_ms",
         "p95_ms", "peak_mb", "equal")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument(
        "--quick", action="store_true", help="the settings of the goals, and whether they are met"
    )
    made.add_argument(
        "--curve", action="store_true", help="4 passes against greedy search over --length"
    )
    made.add_argument(
        "--batch", type=int, nargs="+", default=[1, 16], metavar="N", help="sentences"
    )
    made.add_argument(
        "--length", type=int, nargs="+", metavar="N", help="tokens a side, EOS counted"
    )
    made.add_argument("--vocabulary", type=int, nargs="+", default=[10000], metavar="N")
    made.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N")
    made.add_argument("--passes", type=int, nargs="+", default=[4, 10], metavar="N")
    made.add_argument(
        "--dtypes", nargs="+", help="of this plugin's models (default: what the device has)"
    )
    made.add_argument("--systems", nargs="+", default=["gmlm", "cmlm", "transformer", "12-1"],
                      choices=["gmlm", "cmlm", "transformer", "12-1"])  # fmt: skip
    made.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    made.add_argument("--rounds", type=int, default=7, help="timed runs of each system")
    made.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    made.add_argument(
        "--json", type=Path, metavar="FILE", help="rows; .csv, .md and .png beside it"
    )
    return made


def own_setting(system: System, setting: Setting) -> Setting:
    """With the layers of the system, where these are not those of the others."""
    if system.name != "transformer 12-1":
        return setting
    return replace(setting, size=replace(setting.size, encoder=12, decoder=1))


class Models:
    """Models by system and size, made when first asked for."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder, self.seed = folder, seed
        self._known: Dict[Tuple, Any] = {}

    def source(self, system: System, size: Size) -> Any:
        """What :func:`engines.build_run` takes."""
        size = own_setting(system, Setting(size=size)).size
        key = system.name, system.engine, system.dtype if system.engine == "fairseq" else "", size
        if key not in self._known:
            self._known[key] = self._make(system, size)
        return self._known[key]

    def folder_of(self, system: System, size: Size) -> Optional[Path]:
        """The converted model, for CTranslate2."""
        return self.source(system, size) if system.engine == "ctranslate2" else None

    def _make(self, system: System, size: Size) -> Any:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        if system.name == "gmlm":
            return imported_gmlm(cmlm(size, self.seed), folder)
        if system.name == "cmlm":
            return cmlm(size, self.seed)
        model = transformer(size, self.seed)
        return converted(model, folder) if system.engine == "ctranslate2" else model

    def forget(self) -> None:
        """Free the memory."""
        self._known.clear()


def all_systems(args: argparse.Namespace) -> List[System]:
    """Every system that the options ask for."""
    cuda = args.device == "cuda"
    dtypes = args.dtypes or (
        ["float32", "float16", "bfloat16"] if cuda else ["float32", "bfloat16", "int8"]
    )
    stock = ["float32", "float16"] if cuda else ["float32"]
    fast = ["float16"] if cuda else ["float32", "int8"]
    found = []
    for passes in args.passes:
        for dtype in dtypes if "gmlm" in args.systems else []:
            plain = System("gmlm", "fairseq_gmlm", dtype, passes=passes)
            found += [plain, replace(plain, cuda_graphs=True)] if cuda else [plain]
        if "cmlm" in args.systems:
            found += [System("cmlm", "fairseq", dtype, passes=passes) for dtype in stock]
    for name in ("transformer", "12-1"):
        if name in args.systems:
            full = "transformer 12-1" if name == "12-1" else name
            found += [System(full, "fairseq", d, beam=b) for d in stock for b in (1, 5)]
            found += [System(full, "ctranslate2", d, beam=b) for d in fast for b in (1, 4, 5)]
    return found


def equal_share(outputs: Dict[System, List[List[int]]], system: System) -> Optional[float]:
    """Share of tokens that are those of fairseq's CMLM with as many passes, in float32."""
    reference = outputs.get(System("cmlm", "fairseq", passes=system.passes))
    if system.name != "gmlm" or reference is None:
        return None
    pairs = [p for a, b in zip(outputs[system], reference) for p in zip(a[1:-1], b[1:-1])]
    return sum(a == b for a, b in pairs) / len(pairs)


def measure(
    systems: Sequence[System], setting: Setting, models: Models, rounds: int, memory: bool
) -> Tuple[List[Row], Dict[System, Times]]:
    """Time the systems in turn; a row for each."""
    logger.info(f"batch {setting.batch}, length {setting.length}, vocabulary "
                f"{setting.size.vocabulary}, {setting.threads} thread(s): {len(systems)} systems")  # fmt: skip
    runs: Dict[System, Run] = {}
    for system in systems:
        source = models.source(system, setting.size)
        runs[system] = build_run(system, own_setting(system, setting), source)
    outputs = {system: run() for system, run in runs.items()}
    times = alternate(runs, rounds)
    rows = []
    for system in systems:
        own = own_setting(system, setting)
        before, most = (None, None)
        if memory:
            before, most = peak_of(system, own, models.folder_of(system, setting.size))
        rows.append({
            "system": system.label, "engine": system.engine, "dtype": system.dtype,
            "batch": setting.batch, "length": setting.length,
            "vocabulary": setting.size.vocabulary, "threads": setting.threads,
            "passes": system.passes or setting.length, "median_ms": times[system].median,
            "p95_ms": times[system].p95, "peak_mb": most, "spread_ms": times[system].spread,
            "libraries_mb": before, "equal": equal_share(outputs, system),
            "layers": f"{own.size.encoder}+{own.size.decoder}", "width": own.size.width,
            "device": setting.device,
        })  # fmt: skip
    return rows, times


def quick(models: Models, rounds: int, memory: bool) -> Tuple[List[Row], List[Any]]:
    """The settings of the goals; rows and bars."""
    rows, bars = [], {}
    for setting in dict.fromkeys(goal.setting for goal in GOALS):
        found, times = measure(systems_of(setting), setting, models, rounds, memory)
        rows += found
        bars.update({g: g.bar(times) for g in GOALS if g.setting == setting})
        models.forget()
    return rows, [bars[goal] for goal in GOALS]


def curve(models: Models, lengths: Sequence[int], rounds: int, memory: bool) -> List[Row]:
    """4 passes against greedy search, for each length; the ratio stands in the faster one's row."""
    rows: List[Row] = []
    for length in lengths:
        found, times = measure(CURVE, Setting(length=length), models, rounds, memory)
        for row, system in zip(found, CURVE):
            rival = CURVE[CURVE.index(system) + 2] if system.name == "gmlm" else None
            row["against_greedy"] = None
            if rival is not None:
                row["against_greedy"] = paired_ratio(times[rival], times[system]).median
        rows += found
    return rows


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measure and report."""
    args = parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    logger.setLevel(logging.INFO)
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: torch sees no GPU here; leave the option out")
    memory, bars = not args.no_memory, []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        models = Models(Path(folder))
        if args.quick:
            rows, bars = quick(models, args.rounds, memory)
        elif args.curve:
            rows = curve(models, args.length or LENGTHS, args.rounds, memory)
        else:
            rows = []
            grid = itertools.product(args.vocabulary, args.threads, args.length or [25], args.batch)
            for vocabulary, threads, length, batch in grid:
                setting = Setting(batch, length, Size(vocabulary=vocabulary), threads, args.device)
                rows += measure(all_systems(args), setting, models, args.rounds, memory)[0]
    shown = [
        key for key in (*SHOWN, "against_greedy") if any(row.get(key) is not None for row in rows)
    ]
    finish(rows, shown, bars, args.json)


if __name__ == "__main__":
    main()
