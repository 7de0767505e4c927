"""Tokenised BLEU with compounds split, for comparison with papers from before sacreBLEU.

Those papers tokenise hypotheses and references alike, split words at hyphens, and count with a
script that neither tokenises nor smooths. Scores depend on the tokeniser and can be compared with
nothing else than scores that were made in the same way.
"""

import re
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from sacrebleu.metrics import BLEU

from fairseq_gmlm.comparison.quality import join_subwords, read_lines
from fairseq_gmlm.data.text import Tokenization, Tokenizer

_COMPOUND = re.compile(r"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """Words apart at hyphens inside them; as in the papers, one letter is not split twice.

    >>> split_compounds("a well-known word")
    'a well ##AT##-##AT## known word'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def tokenised_references(
    path: Optional[str], data: str, split: str, language: str, raw: Sequence[str]
) -> Tuple[List[str], str]:
    """References as words, and how they became so.

    Args:
        path: given in the comparison file, or None.
        raw: references before tokenisation, cut by sacremoses if ``prepare`` left no words.

    Raises:
        UserError: the given file is missing or has another number of lines.
    """
    beside = Path(data) / f"{split}.tok.{language}"
    found = Path(path) if path else beside
    if path or beside.is_file():
        return read_lines(found, len(raw), "tokenised_references"), "as prepared"
    cut = Tokenizer(language, Tokenization())
    return [" ".join(cut(line)) for line in raw], "sacremoses"


def tokenised_bleu(
    sentences: Sequence[Sequence[str]], references: Sequence[str]
) -> Tuple[float, str]:
    """BLEU on words with compounds split, and sacreBLEU's signature.

    Args:
        sentences: subwords of each hypothesis.
        references: words, joined by spaces.
    """
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    lines = [split_compounds(join_subwords(tokens)) for tokens in sentences]
    score = bleu.corpus_score(lines, [[split_compounds(line) for line in references]]).score
    return score, str(bleu.get_signature())
