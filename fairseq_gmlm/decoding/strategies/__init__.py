"""Decoding strategies by name. A new one is a file in this folder and a line in the table."""

from typing import Any, Dict, Type

from fairseq_gmlm.decoding.strategies.any_order import AnyOrder
from fairseq_gmlm.decoding.strategies.base import Strategy
from fairseq_gmlm.decoding.strategies.easy_first import EasyFirst
from fairseq_gmlm.decoding.strategies.gibbs import Gibbs
from fairseq_gmlm.decoding.strategies.mask_predict import MaskPredict
from fairseq_gmlm.decoding.strategies.refine import Refine
from fairseq_gmlm.decoding.strategies.threshold import Threshold

STRATEGIES: Dict[str, Type[Strategy]] = {
    "any-order": AnyOrder,
    "easy-first": EasyFirst,
    "gibbs": Gibbs,
    "mask-predict": MaskPredict,
    "refine": Refine,
    "threshold": Threshold,
}


def build_strategy(name: str, options: Any) -> Strategy:
    """The strategy called ``name``, from the decoding options.

    Raises:
        ValueError: unknown name.
    """
    if name not in STRATEGIES:
        raise ValueError(f"--decode-strategy must be one of {sorted(STRATEGIES)}, not {name!r}")
    return STRATEGIES[name].of(options)
