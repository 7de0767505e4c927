"""Two engines that translate token ids with a teacher by beam search."""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Protocol, Sequence

import torch
from fairseq.dataclass.configs import FairseqConfig

from fairseq_gmlm.data.teacher import Teacher
from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class SearchOptions:
    """What decides the result of a search.

    Attributes:
        beam: hypotheses kept.
        lenpen: scores are divided by length to this power.
        max_len_a, max_len_b: at most ``a * source length + b`` tokens, the source's end counted.
    """

    beam: int = 5
    lenpen: float = 1.0
    max_len_a: float = 0.0
    max_len_b: int = 200


class Engine(Protocol):
    """Translates batches of sentences.

    Attributes:
        max_tokens: source tokens of a batch that suit it, padding counted.
    """

    max_tokens: int

    def translate(self, sources: Sequence[List[int]]) -> List[List[int]]:
        """Best target ids of each source; neither side with its end symbol, none unknown."""


class FairseqEngine:
    """fairseq's own sequence generator."""

    max_tokens = 4000

    def __init__(self, teacher: Teacher, options: SearchOptions, cpu: bool = False) -> None:
        cuda = torch.cuda.is_available() and not cpu
        self._device = torch.device("cuda" if cuda else "cpu")
        self._dictionary = teacher.source_dictionary
        self._eos = teacher.target_dictionary.eos()
        self._model = teacher.model.to(self._device)
        self._model.prepare_for_inference_(FairseqConfig())
        self._generator = teacher.task.build_generator(
            [self._model],
            argparse.Namespace(
                beam=options.beam,
                lenpen=options.lenpen,
                max_len_a=options.max_len_a,
                max_len_b=options.max_len_b,
                # A student should not learn to write <unk>.
                unkpen=float("inf"),
            ),
        )

    @torch.no_grad()
    def translate(self, sources: Sequence[List[int]]) -> List[List[int]]:
        """See :class:`Engine`."""
        longest = max(len(source) for source in sources) + 1
        pad, eos = self._dictionary.pad(), self._dictionary.eos()
        rows = [[pad] * (longest - len(s) - 1) + list(s) + [eos] for s in sources]
        lengths = torch.tensor([len(s) + 1 for s in sources])
        net_input = {
            "src_tokens": torch.tensor(rows).to(self._device),
            "src_lengths": lengths.to(self._device),
        }
        hypotheses = self._generator.generate([self._model], {"net_input": net_input})
        return [self._best(candidates) for candidates in hypotheses]

    def _best(self, candidates: Sequence[Any]) -> List[int]:
        if not candidates:
            return []
        tokens = candidates[0]["tokens"].tolist()
        return tokens[:-1] if tokens and tokens[-1] == self._eos else tokens


class CTranslate2Engine:
    """CTranslate2, which is several times faster on a CPU."""

    def __init__(
        self,
        teacher: Teacher,
        options: SearchOptions,
        compute_type: str = "int8",
        cpu: bool = False,
        threads: int = 0,
    ) -> None:
        from fairseq_gmlm.data.conversion import convert_to_ctranslate2, import_ctranslate2

        ctranslate2 = import_ctranslate2()
        self._options = options
        # As fairseq's own search does: the position table has no more rows.
        self._most = teacher.model.max_decoder_positions() - 1
        self._symbols = teacher.source_dictionary.symbols
        self._ids = {symbol: i for i, symbol in enumerate(teacher.target_dictionary.symbols)}
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            convert_to_ctranslate2(teacher, model)
            try:
                self._translator = ctranslate2.Translator(
                    str(model),
                    device="cpu" if cpu else "auto",
                    compute_type=compute_type,
                    intra_threads=threads or torch.get_num_threads(),
                )
            except ValueError as error:
                raise UserError(f"--compute-type {compute_type}: {error}") from error
        # On a CPU large batches leave its cache: a fifth slower at 4000 tokens than at 1000.
        self.max_tokens = 1000 if self._translator.device == "cpu" else 4000

    def translate(self, sources: Sequence[List[int]]) -> List[List[int]]:
        """See :class:`Engine`."""
        longest = max(len(source) for source in sources) + 1
        most = int(self._options.max_len_a * longest + self._options.max_len_b)
        results = self._translator.translate_batch(
            [[self._symbols[token] for token in source] for source in sources],
            beam_size=self._options.beam,
            length_penalty=self._options.lenpen,
            max_decoding_length=min(most, self._most),
            disable_unk=True,
            # Long sources were sorted out before; the engine must not cut any.
            max_input_length=0,
        )
        return [[self._ids[symbol] for symbol in result.hypotheses[0]] for result in results]


def build_engine(
    name: str,
    teacher: Teacher,
    options: SearchOptions,
    compute_type: Optional[str] = None,
    cpu: bool = False,
    threads: int = 0,
) -> Engine:
    """The engine called ``fairseq`` or ``ctranslate2``.

    Args:
        compute_type: precision of ctranslate2, int8 if not given.
        threads: CPU threads; 0 leaves the number as it is.
    """
    if threads:
        torch.set_num_threads(threads)
    if name == "fairseq":
        return FairseqEngine(teacher, options, cpu)
    return CTranslate2Engine(teacher, options, compute_type or "int8", cpu, threads)
