"""The goals of decoding speed, each as two systems in one setting and a ratio."""

from dataclasses import dataclass, replace
from typing import Dict, List, Sequence

from engines import Setting, System
from random_models import Size
from reporting import Bar
from timing import Times, paired_ratio

GMLM = System("gmlm", "fairseq_gmlm", passes=10)
CMLM = System("cmlm", "fairseq", passes=10)
SHORT_INT8 = replace(GMLM, passes=4, dtype="int8")
GREEDY = System("transformer", "ctranslate2", "int8", beam=1)
BEAM5 = replace(GREEDY, beam=5)
SMALL = Size(encoder=3, decoder=3, width=256, ffn=512, heads=4, vocabulary=8000)


@dataclass(frozen=True)
class Goal:
    """``slow`` must take at least ``at_least`` times as long as ``fast``."""

    name: str
    setting: Setting
    slow: System
    fast: System
    at_least: float

    def bar(self, times: Dict[System, Times]) -> Bar:
        """What was reached."""
        ratio = paired_ratio(times[self.slow], times[self.fast])
        return Bar(self.name, self.at_least, ratio.median, ratio.low, ratio.high)


def _goals() -> List[Goal]:
    one, wide = Setting(), Setting(size=Size(vocabulary=32000))
    sixteen, small = Setting(batch=16), Setting(length=15, size=SMALL)
    passes = "10 passes, batch 1, vocabulary"
    found = [
        Goal(f"{passes} 10k, float32, against fairseq CMLM", one, CMLM, GMLM, 1.35),
        Goal(f"{passes} 32k, float32, against fairseq CMLM", wide, CMLM, GMLM, 1.5),
        Goal(
            f"{passes} 10k, bfloat16, against fairseq CMLM in float32",
            one, CMLM, replace(GMLM, dtype="bfloat16"), 2.4,
        ),
        Goal(
            f"{passes} 10k, int8, against fairseq CMLM in float32",
            one, CMLM, replace(GMLM, dtype="int8"), 4.5,
        ),
    ]  # fmt: skip
    for place, setting, greedy, beam in (
        ("batch 1", one, 2.5, 3.5),
        ("batch 16", sixteen, 1.0, 2.0),
        ("batch 1, 3+3 layers of d 256, 15 tokens (random weights)", small, 1.0, 1.5),
    ):
        name = f"4 passes, int8, {place}, against CTranslate2 int8"
        found.append(Goal(f"{name} greedy", setting, GREEDY, SHORT_INT8, greedy))
        found.append(Goal(f"{name} beam 5", setting, BEAM5, SHORT_INT8, beam))
    return found


GOALS = _goals()

LENGTHS = (10, 25, 50, 100, 200)
CURVE: Sequence[System] = (
    replace(GMLM, passes=4), SHORT_INT8, System("transformer", "fairseq", beam=1), GREEDY,
)  # fmt: skip
"""4 passes against greedy search, over :data:`LENGTHS` (issue: from 25 tokens on)."""


def systems_of(setting: Setting) -> List[System]:
    """Those that the goals of a setting compare."""
    goals = [goal for goal in GOALS if goal.setting == setting]
    return list(dict.fromkeys(s for goal in goals for s in (goal.slow, goal.fast)))
