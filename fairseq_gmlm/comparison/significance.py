"""Paired bootstrap test of BLEU against one system, by sacreBLEU (Koehn, 2004)."""

import logging
from typing import Dict, List, Sequence, Tuple

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest


def p_values(
    baseline: Tuple[str, List[str]],
    others: Sequence[Tuple[str, List[str]]],
    references: List[str],
    samples: int,
) -> Dict[str, float]:
    """Probability, by name, of so large a difference in BLEU between equal systems.

    Equal translations get 1; sacreBLEU itself, which counts larger differences only, would give
    them the smallest value there is.

    Args:
        baseline, others: names with hypotheses.
        references: raw text.
        samples: bootstrap resamples; the seed is sacreBLEU's.
    """
    if not others:
        return {}
    log = logging.getLogger("sacrebleu")
    before = log.level
    log.setLevel(logging.WARNING)  # it tells every step of every system
    try:
        test = PairedTest(
            [baseline, *others], {"BLEU": BLEU()}, [references], test_type="bs", n_samples=samples
        )
        _, scores = test()
    finally:
        log.setLevel(before)
    del scores["System"]
    (results,) = scores.values()
    return {
        name: 1.0 if lines == baseline[1] else float(result.p_value)
        for (name, lines), result in zip(others, results[1:])
    }
