"""Named architectures as tables of what differs from a model's defaults."""

from typing import Any, Dict

from fairseq.models import register_model_architecture


def register_architectures(model: str, table: Dict[str, Dict[str, Any]]) -> None:
    """Register each entry of ``table`` (name -> option -> value) for ``model``.

    What the user typed wins over the table, and the table over the dataclass.
    """
    for name, values in table.items():
        register_model_architecture(model, name)(_filling(values))


def _filling(values: Dict[str, Any]):
    def apply(args: Any) -> None:
        for option, value in values.items():
            if getattr(args, option, None) is None:
                setattr(args, option, value)

    return apply
