"""Everything that happened to a sentence, as words and numbers, for the terminal and the page."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_gmlm.analysis.chains import Chain, Fate, fates
from fairseq_gmlm.analysis.decoder import Decoded, Decoder
from fairseq_gmlm.analysis.dependence import Maps, attention_of
from fairseq_gmlm.analysis.words import WordJoiner
from fairseq_gmlm.decoding.candidates import averaged_lengths, candidate_lengths

MASK = "[mask]"


@dataclass(frozen=True)
class Cell:
    """A position after one pass, before anything is taken back.

    Attributes:
        token: of the draft.
        probability: of the token when it was predicted, None if it never was.
        predicted, changed, kept, rejected, remasked: see ``chains.Fate``.
    """

    token: str
    probability: Optional[float]
    predicted: bool
    changed: bool
    kept: bool
    rejected: bool
    remasked: bool


@dataclass(frozen=True)
class TracedPass:
    """One pass of a chain.

    Attributes:
        number: from 1.
        cells: T positions.
        inner: T x T, self-attention of each position on the others.
        cross: T x S, attention on the source's tokens.
    """

    number: int
    cells: List[Cell]
    inner: List[List[float]]
    cross: List[List[float]]


@dataclass(frozen=True)
class TracedChain:
    """A candidate.

    Attributes:
        candidate: its number; rank: its place by score, from 1.
        score: what candidates are ranked by.
        start: what the first pass read.
        passes: of the chain.
        output: its tokens by position, None where one is left out.
        text: them as words.
    """

    candidate: int
    rank: int
    score: float
    start: List[str]
    passes: List[TracedPass]
    output: List[Optional[str]]
    text: str


@dataclass(frozen=True)
class LengthCandidate:
    """A length that was tried.

    Attributes:
        candidate: number of its chain; length: tokens, without BOS and EOS.
        log_probability: by the length head (0 for the reference's length).
        score: of its chain, None if pruning ended it (``--prune-to``); chosen: it won.
    """

    candidate: int
    length: int
    log_probability: float
    score: Optional[float]
    chosen: bool


@dataclass(frozen=True)
class SentenceTrace:
    """A sentence.

    Attributes:
        number: in its split or input, from 0.
        source: tokens that are attended to, EOS included.
        reference: as words, None if there is none.
        lengths: every candidate, best first; those that were pruned last.
        chains: of the best candidates, best first.
    """

    number: int
    source: List[str]
    reference: Optional[str]
    lengths: List[LengthCandidate]
    chains: List[TracedChain] = field(default_factory=list)


class Tracer:
    """Traces batches.

    Args:
        decoder: of a GMLM whose ``nbest`` is the number of candidates that are run to their end.
        best: candidates of each sentence whose chains are traced.
        layers, heads: of attention (see ``dependence``).
    """

    def __init__(self, decoder: Decoder, best: int, layers: int, heads: str) -> None:
        self.decoder, self.best, self.layers, self.heads = decoder, best, layers, heads
        self.source_dictionary = decoder.task.source_dictionary
        self.dictionary = decoder.task.target_dictionary
        self.join = WordJoiner(self.dictionary)
        self.masks = set(decoder.masks.tolist())

    def __call__(self, batch: Dict[str, Any]) -> List[SentenceTrace]:
        """Traces of a batch, in its order."""
        sentences = self.decoder.decode(batch)
        model, net_input = self.decoder.models[0], batch["net_input"]
        tokens = net_input["src_tokens"]
        with torch.no_grad():
            memory = model.encode(tokens, net_input.get("src_lengths"))
        sizes, logs = self._lengths(tokens, net_input.get("src_lengths"), batch.get("target"))
        found = []
        for row, sentence in enumerate(sentences):
            real = tokens[row].ne(self.source_dictionary.pad()).cpu()
            chains = [
                self._chain(chain, rank, memory, row, real)
                for rank, chain in enumerate(sentence.chains[: self.best], 1)
            ]
            source = [self.source_dictionary[int(i)] for i in tokens[row].cpu()[real]]
            target = sentence.target
            reference = None if target is None else " ".join(self.join(target))
            lengths = _length_candidates(sentence, sizes[row].tolist(), logs[row].tolist())
            found.append(SentenceTrace(sentence.number, source, reference, lengths, chains))
        return found

    @torch.no_grad()
    def _lengths(
        self, tokens: Tensor, lengths: Optional[Tensor], target: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor]:
        """Each candidate's length, BOS and EOS included, and its log-probability, both (B, K)."""
        generator = self.decoder.generator
        memories = [model.encode(tokens, lengths) for model in generator.models]
        options, model = generator.options, generator.models[0]
        output = None if options.oracle_length else averaged_lengths(generator.models, memories)
        dictionary = self.source_dictionary
        frame = torch.tensor([dictionary.pad(), dictionary.eos(), dictionary.bos()])
        empty = torch.isin(tokens, frame.to(tokens.device)).all(1)
        sizes, logs = candidate_lengths(model, memories[0], options, target, empty, output)
        return sizes, logs.float()

    def symbol(self, token: int) -> str:
        """A token as it is shown."""
        return MASK if token in self.masks else self.dictionary[token]

    def _chain(self, chain: Chain, rank: int, memory: Any, row: int, real: Tensor) -> TracedChain:
        passes: List[TracedPass] = []
        if chain.steps:
            shown = [step.shown for step in chain.steps]
            rows = [row] * len(shown)
            model = self.decoder.models[0]
            maps = attention_of(model, memory, shown, rows, self.layers, self.heads)
            for place, fate in enumerate(fates(chain, self.decoder.masks)):
                passes.append(self._pass(chain, place, fate, maps, real))
        final = chain.steps[-1].draft.tolist() if chain.steps else chain.tokens
        gone = chain.dropped.tolist() or [False] * len(final)
        left = iter(chain.tokens)
        return TracedChain(
            candidate=chain.candidate,
            rank=rank,
            score=chain.score,
            start=[self.symbol(i) for i in chain.steps[0].shown.tolist()] if chain.steps else [],
            passes=passes,
            output=[None if out else self.symbol(next(left)) for out in gone],
            text=" ".join(self.join(chain.tokens)),
        )

    def _pass(self, chain: Chain, place: int, fate: Fate, maps: Maps, real: Tensor) -> TracedPass:
        step = chain.steps[place]
        probabilities = step.scores.double().exp().tolist()
        ids = step.draft.tolist()
        marks = [each.tolist() for each in (
            fate.predicted, fate.changed, fate.kept, fate.rejected, fate.remasked
        )]  # fmt: skip
        cells = [
            Cell(self.symbol(token), None if token in self.masks else probability, *flags)
            for token, probability, *flags in zip(ids, probabilities, *marks)
        ]
        inside = slice(1, len(ids) + 1)
        return TracedPass(
            number=place + 1,
            cells=cells,
            inner=maps.inner[place, inside, inside].cpu().tolist(),
            cross=maps.cross[place, inside].cpu()[:, real].tolist(),
        )


def _length_candidates(
    sentence: Decoded, sizes: Sequence[int], logs: Sequence[float]
) -> List[LengthCandidate]:
    found = [
        LengthCandidate(
            chain.candidate, chain.length, logs[chain.candidate], chain.score, place == 0
        )
        for place, chain in enumerate(sentence.chains)
    ]
    pruned = set(range(len(sizes))) - {each.candidate for each in found}
    return found + [
        LengthCandidate(number, sizes[number] - 2, logs[number], None, False)
        for number in sorted(pruned)
    ]
