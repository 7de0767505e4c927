"""Write docs/options.md from the dataclasses: what `fairseq-train --help` says, in one page.

python scripts/options_page.py            # write
python scripts/options_page.py --check    # fail if the page is out of date
"""

import argparse
import sys
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Dict, List, Set

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import fairseq_gmlm
from fairseq_gmlm.models.config import ARCHITECTURES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
HEAD = """# Options

Made by `python scripts/options_page.py` from the dataclasses; a test keeps it true. Options that
fairseq has already (`--iter-decode-max-iter`, `--iter-decode-with-beam`, `--sampling`, `--lenpen`,
...) keep their meaning and are not repeated; `--help` of fairseq's commands shows an option of a
task only once `--task` is given. `--eval-bleu-args` and the hub interface take the same names with
underscores for what concerns decoding.

`fairseq-hydra-train` takes them in a YAML file (`--config-dir DIR --config-name NAME`) with
`common.user_dir` and `_name: translation_gmlm` under `task`, likewise for `model` and `criterion`.
`task=translation_gmlm` on its command line cannot work: fairseq composes before it imports the user
dir.
"""


def flag(name: str) -> str:
    """As it is typed."""
    return "--" + name.replace("_", "-")


def shown_default(item: Field) -> str:
    """The default, or what it means that there is none."""
    value = item.default if item.default is not MISSING else item.default_factory()
    if value is None or str(value).startswith("${"):
        return ""
    return f"`{value}`"


def choices(item: Field) -> str:
    """Values that an enumeration takes."""
    kind = item.type
    members = getattr(kind, "__members__", None)
    return f" One of {', '.join(f'`{m.value}`' for m in members.values())}." if members else ""


def table(config: Any, without: Set[str]) -> List[str]:
    """Rows of a dataclass, leaving out inherited fields of fairseq."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for item in fields(config):
        if item.name in without or item.name.startswith("_") or "help" not in item.metadata:
            continue
        text = str(item.metadata["help"]).replace("|", "\\|")
        text += "" if text.endswith(".") else "."
        rows.append(f"| `{flag(item.name)}` | {shown_default(item)} | {text}{choices(item)} |")
    return rows


def stock_fields(config: Any) -> Set[str]:
    """Names that come from fairseq's own dataclasses."""
    names = {item.name for item in fields(FairseqDataclass)}
    for base in config.__mro__[1:]:
        if base.__module__.startswith("fairseq.") and hasattr(base, "__dataclass_fields__"):
            names |= set(base.__dataclass_fields__)
    return names


def architectures() -> List[str]:
    """What each named architecture changes."""
    rows = ["| architecture | changes |", "|---|---|"]
    for name, values in ARCHITECTURES.items():
        changed = ", ".join(f"`{flag(k)} {v}`" for k, v in values.items()) or "nothing"
        rows.append(f"| `{name}` | {changed} |")
    return rows


def page() -> str:
    """The whole page."""
    fairseq_gmlm.register()
    parts = [HEAD]
    kinds: Dict[str, Dict[str, Any]] = {
        "Task": TASK_DATACLASS_REGISTRY,
        "Model": MODEL_DATACLASS_REGISTRY,
        "Criterion": CRITERION_DATACLASS_REGISTRY,
    }
    for kind, registry in kinds.items():
        for name, config in sorted(registry.items()):
            if not config.__module__.startswith("fairseq_gmlm"):
                continue
            rows = table(config, stock_fields(config))
            parts.append(f"\n## {kind} `{name}`\n\n" + "\n".join(rows) + "\n")
            if name == "gmlm_transformer":
                parts.append("\n" + "\n".join(architectures()) + "\n")
    return "".join(parts)


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args()
    text = page()
    if args.check:
        same = PAGE.is_file() and PAGE.read_text("utf-8") == text
        print("docs/options.md is " + ("true" if same else "out of date: run this script"))
        return 0 if same else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
