"""From text to the pieces of a dictionary and back, with fairseq's own tokenizers and BPEs."""

import argparse
import html
from typing import Any, Container, List, Optional, Tuple

from fairseq_gmlm.errors import UserError

TOKENIZERS = ("moses", "nltk", "space")
BPES = ("subword_nmt", "sentencepiece", "gpt2", "fastbpe", "byte_bpe", "characters")


def add_codec_arguments(parser: argparse.ArgumentParser) -> None:
    """fairseq's options for tokenisers and BPE, under their own names."""
    group = parser.add_argument_group("tokenisation (as the data-bin was prepared)")
    add = group.add_argument
    add("--tokenizer", choices=TOKENIZERS, help="fairseq's tokenizer (default: none)")
    add("--bpe", choices=BPES, help="fairseq's subword encoder (default: none)")
    add("--bpe-codes", metavar="FILE", help="codes of subword_nmt or fastbpe")
    add("--sentencepiece-model", metavar="FILE", help="model of sentencepiece")
    add("--gpt2-encoder-json", metavar="FILE", help="encoder.json of gpt2")
    add("--gpt2-vocab-bpe", metavar="FILE", help="vocab.bpe of gpt2")
    add("--text-lang", default="en", metavar="LANG", help="language for moses (default: en)")
    add("--moses-no-dash-splits", action="store_true", help="moses: do not split at hyphens")
    add("--moses-no-escape", action="store_true", help="moses: do not write &amp; for &")


class UnknownWord(ValueError):
    """A piece of text that the dictionary does not have.

    Attributes:
        at: index of its first character in the text, from 0.
    """

    def __init__(self, at: int, word: str) -> None:
        super().__init__(
            f"{word!r} is not in the model's dictionary; use another word, or --keep-unknown"
        )
        self.at = at


class Codec:
    """Text to pieces and back.

    Args:
        tokenizer, bpe: fairseq's encoders, or None.
    """

    def __init__(self, tokenizer: Optional[Any] = None, bpe: Optional[Any] = None) -> None:
        self.tokenizer, self.bpe = tokenizer, bpe

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Codec":
        """From the options of :func:`add_codec_arguments`.

        Raises:
            UserError: a missing file or package, or options that an encoder needs.
        """
        from fairseq.data import encoders

        if args.bpe in ("subword_nmt", "fastbpe") and not args.bpe_codes:
            raise UserError(f"--bpe {args.bpe} needs --bpe-codes FILE")
        if args.bpe == "sentencepiece" and not args.sentencepiece_model:
            raise UserError("--bpe sentencepiece needs --sentencepiece-model FILE")
        values = {key: value for key, value in vars(args).items() if value is not None}
        values.update(source_lang=args.text_lang, target_lang=args.text_lang)
        options = argparse.Namespace(**values)
        try:
            return cls(encoders.build_tokenizer(options), encoders.build_bpe(options))
        except Exception as error:  # encoders raise whatever their packages raise
            raise UserError(f"--tokenizer {args.tokenizer}, --bpe {args.bpe}: {error}") from error

    def encode(self, text: str) -> List[str]:
        """Pieces of a text."""
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        if self.bpe is not None:
            text = self.bpe.encode(text)
        return text.split()

    def decode(self, pieces: List[str]) -> str:
        """Text of pieces; a word whose end is missing ends where it is."""
        text = " ".join(pieces)
        if self.bpe is not None:
            text = self.bpe.decode(text)
        if self.tokenizer is not None:
            text = self.tokenizer.decode(text)
        return text

    def surface(self, piece: str) -> str:
        """How a piece reads in the text: without markers and escapes."""
        if piece.endswith("@@") and len(piece) > 2:
            piece = piece[:-2]
        return html.unescape(piece.lstrip("\u2581\u0120"))


def encode_ids(
    codec: Codec, text: str, dictionary: Any, special: Container[int], keep_unknown: bool
) -> Tuple[List[int], List[int]]:
    """Ids of a text's pieces, and the index of the character at which each begins, from 0.

    Args:
        codec: cuts the text.
        text: one line.
        dictionary: gives ids.
        special: ids that text cannot have; a piece that reads like one is unknown.
        keep_unknown: unknown pieces get the unknown symbol.

    Raises:
        UnknownWord: unless ``keep_unknown``.
    """
    ids: List[int] = []
    places: List[int] = []
    cursor = 0
    for piece in codec.encode(text):
        surface = codec.surface(piece)
        at = text.find(surface, cursor) if surface else -1
        if at >= 0:
            cursor = at + len(surface)
        else:  # a tokenizer has changed it: where the last known piece ended
            at = min(cursor, max(len(text) - 1, 0))
        index = dictionary.index(piece)
        if index in special:
            if not keep_unknown:
                raise UnknownWord(at, surface)
            index = dictionary.unk()
        ids.append(index)
        places.append(at)
    return ids, places
