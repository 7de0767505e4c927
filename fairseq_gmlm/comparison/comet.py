"""COMET, an optional metric: a trained model that reads sources too."""

import contextlib
import io
import logging
from pathlib import Path
from typing import Any, List

from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)


class CometScorer:
    """A COMET model.

    Args:
        name: of a published model, which the package downloads, or a path to a checkpoint.

    Raises:
        UserError: the package is missing, or the model cannot be had.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            import comet
        except ImportError as error:
            raise UserError(
                f"'comet: {name}' needs the extra: pip install 'fairseq-gmlm[comet]', or leave "
                "'comet' out"
            ) from error
        try:
            path = name if Path(name).is_file() else comet.download_model(name)
            self.model: Any = comet.load_from_checkpoint(path)
        except Exception as error:  # whatever the hub, the disk or the model's own code raises
            reason = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise UserError(
                f"'comet: {name}' cannot be loaded ({reason}): give the path of a checkpoint that "
                "is on this machine, or leave 'comet' out"
            ) from error

    def __call__(self, sources: List[str], hypotheses: List[str], references: List[str]) -> float:
        """The system score, usually between 0 and 1."""
        triples = [
            {"src": source, "mt": hypothesis, "ref": reference}
            for source, hypothesis, reference in zip(sources, hypotheses, references)
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            found = self.model.predict(triples, batch_size=16, gpus=0, progress_bar=False)
        return float(found.system_score)
