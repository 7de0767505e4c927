"""What an autoregressive teacher says: its list of translations, and its opinion of others'."""

from argparse import Namespace
from typing import List, NamedTuple, Sequence

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from fairseq_gmlm.data.teacher import Teacher

Tokens = List[int]


class Opinion(NamedTuple):
    """Of one translation, its words alone (the end is left out).

    Attributes:
        agreed: tokens that the teacher likes best after the tokens before them.
        log_probability: of all of them, in nats.
        total: number of tokens.
    """

    agreed: int
    log_probability: float
    total: int


class TeacherView:
    """A teacher with a beam search.

    Args:
        teacher: loaded for the data at hand.
        nbest: translations listed.
        beam: hypotheses kept, at least ``nbest``.
        device: where it runs.
    """

    def __init__(self, teacher: Teacher, nbest: int, beam: int, device: torch.device) -> None:
        self.model, self.device = teacher.model.to(device), device
        self.source, self.target = teacher.source_dictionary, teacher.target_dictionary
        self.model.prepare_for_inference_(Namespace(generation=Namespace()))
        self.nbest = nbest
        options = Namespace(beam=beam, lenpen=1.0, max_len_a=1.5, max_len_b=20)
        self.generator = teacher.task.build_generator([self.model], options)

    def _sources(self, sources: Sequence[Tokens]) -> dict:
        rows = [torch.tensor([*source, self.source.eos()]) for source in sources]
        tokens = collate_tokens(rows, self.source.pad(), left_pad=True)
        lengths = torch.tensor([len(row) for row in rows])
        return {"src_tokens": tokens.to(self.device), "src_lengths": lengths.to(self.device)}

    @torch.no_grad()
    def translations(self, sources: Sequence[Tokens]) -> List[List[Tokens]]:
        """The ``nbest`` best of each source, best first, as ids without EOS."""
        net_input = self._sources(sources)
        found = self.generator.generate([self.model], {"net_input": net_input})
        eos = self.target.eos()
        # fairseq's search lists the whole beam.
        return [
            [[i for i in h["tokens"].tolist() if i != eos] for h in each[: self.nbest]]
            for each in found
        ]

    @torch.no_grad()
    def opinions(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> List[Opinion]:
        """Of one translation of each source; symbols that it does not know never agree."""
        eos, pad = self.target.eos(), self.target.pad()
        known = len(self.target)
        rows = [torch.tensor([eos, *target]) for target in targets]
        inputs = collate_tokens(rows, pad).to(self.device)
        safe = inputs.masked_fill(inputs >= known, self.target.unk())
        net_input = self._sources(sources)
        output = self.model(net_input["src_tokens"], net_input["src_lengths"], safe)
        logs = self.model.get_normalized_probs(output, log_probs=True)
        best = logs.argmax(-1)
        scores = logs[:, :-1].gather(-1, safe[:, 1:, None]).squeeze(-1)
        agreed = best[:, :-1].eq(inputs[:, 1:])
        return [
            _opinion(agreed[row, : len(t)], scores[row, : len(t)]) for row, t in enumerate(targets)
        ]


def _opinion(agreed: Tensor, scores: Tensor) -> Opinion:
    return Opinion(int(agreed.sum()), float(scores.sum()), len(scores))
