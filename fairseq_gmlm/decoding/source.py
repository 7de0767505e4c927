"""The sources of a batch."""

from typing import Any, Dict, NamedTuple, Optional

from torch import Tensor

from fairseq_gmlm.vocabulary import Vocabulary


class Source(NamedTuple):
    """Sources of a batch.

    Attributes:
        tokens, lengths: fairseq's ``src_tokens`` int64 (B, S) and ``src_lengths``.
        real: bool (B, S), no padding; words: bool (B, S), neither BOS nor EOS besides.
    """

    tokens: Tensor
    lengths: Optional[Tensor]
    real: Tensor
    words: Tensor

    @classmethod
    def of(cls, net_input: Dict[str, Any], vocabulary: Vocabulary) -> "Source":
        """From the ``net_input`` of fairseq's batch."""
        tokens = net_input["src_tokens"]
        real = tokens.ne(vocabulary.pad)
        words = real & tokens.ne(vocabulary.eos) & tokens.ne(vocabulary.bos)
        return cls(tokens, net_input.get("src_lengths"), real, words)
