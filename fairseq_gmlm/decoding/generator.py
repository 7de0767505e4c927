"""The one generator: encoder once, length candidates, chain, best candidate."""

import logging
from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import row_keys
from fairseq_gmlm.decoding.candidates import candidate_lengths, start_chain
from fairseq_gmlm.decoding.chain import ChainResult, run_chain
from fairseq_gmlm.decoding.conditional import ModelConditional
from fairseq_gmlm.decoding.hypotheses import Counters, candidate_scores, hypothesis
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.strategies import build_strategy

logger = logging.getLogger(__name__)


class GMLMGenerator:
    """Turns samples into hypotheses; built by ``task.build_generator``.

    Args:
        models: ``gmlm_transformer`` models (averaged), and last the reranker if one is used.
        options: what to do.

    Attributes:
        counters: sums over everything generated so far.
        symbols_to_strip_from_output: ids that fairseq leaves out when it prints.
        before_pass: optional hook ``(state, step) -> state``, called before every pass.
    """

    def __init__(self, models: Sequence[Any], options: DecodingOptions) -> None:
        models = list(models)
        self.reranker = models.pop() if options.rerank else None
        if not models:
            raise ValueError(
                "--iter-decode-with-external-reranker takes the last checkpoint of --path as the "
                "reranker; give at least two, separated by ':'"
            )
        for model in models:
            if not hasattr(model, "length_predictor"):
                raise ValueError(
                    f"{type(model).__name__} is not a GMLM model; decode it with its own --task, "
                    "or import a cmlm_transformer first: fairseq-gmlm import-cmlm"
                )
        self.models, self.options = models, options
        self.strategy = build_strategy(options.decode_strategy, options)
        vocabulary = models[0].vocabulary
        self.pad, self.eos = vocabulary.pad, vocabulary.eos
        self.symbols_to_strip_from_output = set(vocabulary.specials())
        self.allowed = vocabulary.unk if options.allow_unk else None
        self.counters = Counters()
        self.before_pass = None
        if options.candidates > 1:
            logger.info(
                f"{options.candidates} candidates a sentence: {options.length_beam} lengths x "
                f"{options.length_offset_beam} offsets x {options.parallel_decodes} parallel"
            )

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        **unused: Any,
    ) -> List[List[Dict[str, Any]]]:
        """Translate a batch.

        Args:
            models: ignored; the generator keeps those it was built with.
            sample: fairseq's batch; ``net_input.src_tokens`` int64 (B, S), and ``target`` if the
                oracle's lengths are wanted.
            prefix_tokens, constraints: must be None.

        Returns:
            for each sentence up to ``nbest`` hypotheses, best first: ``tokens`` with BOS and EOS,
            ``score`` (mean log-probability, see ``--lenpen``), ``positional_scores``, ``steps``
            (fairseq's: passes - 1), ``passes``, ``alignment``, ``attention``, ``history``.
        """
        if prefix_tokens is not None and prefix_tokens.numel():
            raise ValueError("--prefix-size is not supported by translation_gmlm; leave it at 0")
        if constraints is not None:
            raise ValueError("--constraints is not supported by translation_gmlm; leave it out")
        src_tokens = sample["net_input"]["src_tokens"]
        src_lengths = sample["net_input"].get("src_lengths")
        result, lengths = self._run(src_tokens, src_lengths, sample.get("target"))
        return self._collect(result, lengths, src_tokens, src_lengths)

    def _run(self, src_tokens: Tensor, src_lengths: Optional[Tensor], target: Optional[Tensor]):
        options, model = self.options, self.models[0]
        memories = [m.encode(src_tokens, src_lengths) for m in self.models]
        real = src_tokens.ne(self.pad)
        words = real & src_tokens.ne(self.eos) & src_tokens.ne(model.vocabulary.bos)
        lengths, _ = candidate_lengths(model, memories[0], options, target, ~words.any(1))
        state, padded = start_chain(
            model,
            lengths,
            self.strategy.start,
            row_keys(src_tokens, words),
            options.decode_seed,
            self.pad,
        )
        banned = model.banned
        if self.allowed is not None:
            banned = banned[banned != self.allowed]
        conditional = ModelConditional(
            self.models, memories, options.choice, banned, padded, self.strategy.needs_states
        )
        result = run_chain(
            conditional,
            state,
            self.strategy,
            options.passes,
            candidates=options.candidates,
            early_stop=options.early_stop and options.choice.greedy,
            keep_history=options.keep_history,
            before_pass=self.before_pass,
        )
        return result, lengths

    def _collect(
        self,
        result: ChainResult,
        lengths: Tensor,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
    ) -> List[List[Dict[str, Any]]]:
        """Rank the candidates of each sentence."""
        count = lengths.size(1)
        scores = candidate_scores(result, self.options.length_penalty).view(-1, count)
        if self.reranker is not None:
            from fairseq_gmlm.decoding.reranking import rerank

            scores = rerank(self.reranker, src_tokens, src_lengths, result, count, self.models[0])
        ranked = scores.topk(self.options.nbest, dim=1)
        order, values = ranked.indices.tolist(), ranked.values.tolist()
        hypotheses = []
        for sentence, (places, best) in enumerate(zip(order, values)):
            rows = [sentence * count + place for place in places]
            hypotheses.append(
                [
                    hypothesis(result, row, score, self.options.keep_history)
                    for row, score in zip(rows, best)
                ]
            )
        self.counters.add(result, [h[0] for h in hypotheses], count)
        return hypotheses
