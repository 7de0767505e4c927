"""From a row to a system that translates."""

from fairseq_gmlm.comparison.ctranslate2_system import CTranslate2System
from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.comparison.system import SplitSystem, System


def load_system(spec: SystemSpec, data: str, split: str, device: str = "cpu") -> SplitSystem:
    """Load the first checkpoint of a row.

    Raises:
        UserError: see :class:`System` and :class:`CTranslate2System`.
    """
    kind = CTranslate2System if spec.engine == "ctranslate2" else System
    return kind(spec, data, split, device)
