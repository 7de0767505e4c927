"""Everything exact about one Ising model, as plain numbers; what ``fairseq-gmlm theory`` prints."""

import math
from typing import Any, Dict, Optional, Tuple

from torch import Tensor

from fairseq_gmlm.theory.asymptotics import sandwich
from fairseq_gmlm.theory.chains import (
    block_gibbs_matrix,
    extremes,
    masked_product_matrix,
    mixing_steps,
    stationary_law,
    synchronous_matrix,
)
from fairseq_gmlm.theory.constants import poincare_constant
from fairseq_gmlm.theory.distributions import IsingModel
from fairseq_gmlm.theory.mask_laws import uniform_blocks
from fairseq_gmlm.theory.states import total_variation

MAX_SITES = 10
MIXING_TOLERANCE = 0.1


def ising_report(model: IsingModel) -> Dict[str, Any]:
    """Asymptotics, constants and chains for every block size k = 1 .. N.

    Returns:
        ``N``, ``couplings`` and ``fields`` as in the file, then lists over k (entry 0 is k = 1):
        ``trace_inverse_information_joint_one_mask``, ``trace_sandwich_joint_all_masks``,
        ``trace_sandwich_product_one_mask`` (up to k = N - 1, since the product loss at k = N
        learns margins only; None where its Hessian is singular), ``poincare_constant``;
        ``mixing_steps``: steps from all minus to TV 0.1 of each chain's own stationary law;
        ``stationary_bias``: TV of that law to the model. The last two hold a list over k for
        ``block_gibbs`` and ``masked_product`` and a number for ``synchronous``. None stands for
        what is infinite in double precision.

    Raises:
        ValueError: more than ten sites.
    """
    n = model.num_sites
    if n > MAX_SITES:
        raise ValueError(
            f"too many states: N={n} spins have {2**n}, and transition matrices are made for at "
            f"most {2**MAX_SITES}; use a model of N <= {MAX_SITES}"
        )
    laws = [uniform_blocks(n, k) for k in range(1, n + 1)]
    report: Dict[str, Any] = {
        "N": n,
        "couplings": {
            f"{i},{j}": model.couplings[i, j].item() for i in range(n) for j in range(i + 1, n)
        },
        "fields": model.fields.tolist(),
        "trace_inverse_information_joint_one_mask": [sandwich(model, law).trace for law in laws],
        "trace_sandwich_joint_all_masks": [
            sandwich(model, law, masks_per_sample=None).trace for law in laws
        ],
        "trace_sandwich_product_one_mask": [
            sandwich(model, law, loss="product").trace for law in laws[:-1]
        ],
        "poincare_constant": [
            None if math.isinf(value) else value
            for value in (poincare_constant(model, law) for law in laws)
        ],
    }
    start = extremes(n)[0]
    steps: Dict[str, Any] = {}
    bias: Dict[str, Any] = {}
    for name, make in (
        ("block_gibbs", block_gibbs_matrix),
        ("masked_product", masked_product_matrix),
    ):
        pairs = [_mixing_and_bias(make(model, law), model, start) for law in laws]
        steps[name], bias[name] = [step for step, _ in pairs], [off for _, off in pairs]
    steps["synchronous"], bias["synchronous"] = _mixing_and_bias(
        synchronous_matrix(model), model, start
    )
    return {**report, "mixing_steps": steps, "stationary_bias": bias}


def _mixing_and_bias(
    matrix: Tensor, model: IsingModel, start: Tensor
) -> Tuple[Optional[int], Optional[float]]:
    try:
        law = stationary_law(matrix)
        bias = total_variation(law, model.probabilities()).item()
        return mixing_steps(matrix, start, MIXING_TOLERANCE, law), bias
    except ValueError:
        # Couplings so strong that escape probabilities vanish in double precision.
        return None, None
