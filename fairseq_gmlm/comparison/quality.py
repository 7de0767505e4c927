"""Scores of translations against raw references; sacreBLEU does the counting."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence

from sacrebleu.metrics import BLEU, CHRF
from sacremoses import MosesDetokenizer

from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class Quality:
    """Corpus scores.

    Attributes:
        bleu, chrf: sacreBLEU's, on detokenised text, 0 to 100.
        signature, chrf_signature: of the two scores.
        length_ratio: hypothesis words / reference words, in sacreBLEU's tokens.
        brevity_penalty: of the BLEU score.
    """

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    length_ratio: float
    brevity_penalty: float


def join_subwords(tokens: Sequence[str]) -> str:
    """Subword-nmt's pieces to words.

    >>> join_subwords(["a@@", "b", "c"])
    'ab c'
    """
    return (" ".join(tokens) + " ").replace("@@ ", "").strip()


class Detokenizer:
    """Words to plain text of a language (sacremoses)."""

    def __init__(self, language: str) -> None:
        self.moses = MosesDetokenizer(lang=language)

    def __call__(self, tokens: Sequence[str]) -> str:
        words = join_subwords(tokens).split()
        return self.moses.detokenize(words, unescape=True) if words else ""


def read_lines(path: Path, expected: int, key: str) -> List[str]:
    """Text of a split, one sentence a line.

    Args:
        expected: sentences of the split.
        key: of the comparison file, which names another path.

    Raises:
        UserError: no such file, or another number of lines than sentences.
    """
    if not path.is_file():
        raise UserError(
            f"no {key} at {path}; name a file with '{key}:' (one sentence a line), or make the "
            "data with fairseq-gmlm prepare"
        )
    lines = path.read_text("utf-8").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if len(lines) != expected:
        raise UserError(f"{path} has {len(lines)} lines for {expected} sentences")
    return lines


def score(hypotheses: List[str], references: List[str]) -> Quality:
    """BLEU and chrF of a corpus."""
    bleu = BLEU()
    result = bleu.corpus_score(hypotheses, [references])
    chrf = CHRF()
    return Quality(
        bleu=result.score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        length_ratio=result.sys_len / max(result.ref_len, 1),
        brevity_penalty=result.bp,
    )


def stutter_rate(sentences: Sequence[Sequence[str]]) -> float:
    """Tokens that equal their left neighbour / all tokens (spec section 6)."""
    repeats = sum(a == b for tokens in sentences for a, b in itertools.pairwise(tokens))
    return repeats / max(sum(len(tokens) for tokens in sentences), 1)


def reference_path(data: str, split: str, language: str, given: Optional[str]) -> Path:
    """Where the raw references are."""
    return Path(given) if given else Path(data) / f"{split}.raw.{language}"


def read_references(path: Path, expected: int) -> List[str]:
    """Raw references; see :func:`read_lines`."""
    return read_lines(path, expected, "references")
