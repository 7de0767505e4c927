"""The one generator: encoder once, length candidates, chain, best candidate."""

import logging
from typing import Any, Dict, List, Optional, Sequence, Union

import torch
from torch import Tensor

from fairseq_gmlm.counter_rng import row_keys
from fairseq_gmlm.decoding.attention import AttentionRecorder, hypothesis_attention
from fairseq_gmlm.decoding.candidates import averaged_lengths, candidate_lengths, start_chain
from fairseq_gmlm.decoding.chain import BeforePass, ChainResult, run_chain
from fairseq_gmlm.decoding.choice import GREEDY_BELOW
from fairseq_gmlm.decoding.conditional import LogitHook, ModelConditional, check_ensemble
from fairseq_gmlm.decoding.hypotheses import Counters, FinishedRows, candidate_scores
from fairseq_gmlm.decoding.memory import Trimmer
from fairseq_gmlm.decoding.options import DecodingOptions
from fairseq_gmlm.decoding.precision import for_decoding
from fairseq_gmlm.decoding.pruning import Pruning
from fairseq_gmlm.decoding.reranking import check_reranker, rerank
from fairseq_gmlm.decoding.rescoring import rescored
from fairseq_gmlm.decoding.source import Source
from fairseq_gmlm.decoding.state import ChainState
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
        logit_hook: optional hook ``(logits, state, columns, step) -> logits`` on the float logits
            (R, n, V) of the canvas positions ``columns`` (R, n); what can never be predicted stays
            so.
        export_attention: add ``self_attention``, ``cross_attention`` and ``attention`` of the pass
            that ``--attention-pass`` names to each hypothesis (slower).
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
        check_ensemble(models)
        if self.reranker is not None:
            check_reranker(self.reranker, models[0])
        self.models, self.options = models, options
        self._originals = models
        self.strategy = build_strategy(options.decode_strategy, options)
        if self.strategy.needs_approval and any(model.rejecter is None for model in models):
            raise ValueError(
                "--rejecter learned needs models that were trained with --learned-rejecter; "
                "choose another rejecter"
            )
        if options.prune_to and not self.strategy.whole_drafts:
            raise ValueError(
                f"--prune-to {options.prune_to} compares whole drafts, which --decode-strategy "
                f"{options.decode_strategy} has only at the end; leave it out"
            )
        vocabulary = models[0].vocabulary
        self.pad, self.eos = vocabulary.pad, vocabulary.eos
        self.symbols_to_strip_from_output = set(vocabulary.specials())
        self.counters = Counters()
        self.before_pass: Optional[BeforePass] = None
        self.logit_hook: Optional[LogitHook] = None
        self.export_attention = False
        self._trimmer = Trimmer()
        pruned = options.survivors < options.candidates
        if options.candidates > 1:
            logger.info(
                f"{options.candidates} candidates a sentence: {options.length_beam} lengths x "
                f"{options.length_offset_beam} offsets x {options.parallel_decodes} parallel"
                + (f", {options.prune_to} after pass {options.prune_after}" if pruned else "")
            )

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        temperature: Optional[Tensor] = None,
        **unused: Any,
    ) -> List[List[Dict[str, Any]]]:
        """Translate a batch.

        Args:
            models: ignored; the generator keeps those it was built with.
            sample: fairseq's batch; ``net_input.src_tokens`` int64 (B, S), and ``target`` if the
                oracle's lengths are wanted.
            prefix_tokens, constraints: must be None.
            temperature: float (B,), one for each sentence in place of the run's; below 1e-4 the
                best tokens are taken.

        Returns:
            for each sentence up to ``nbest`` hypotheses, best first: ``tokens`` with BOS and EOS,
            ``score`` (mean log-probability, see ``--lenpen``), ``positional_scores``, ``steps``
            (fairseq's: passes - 1), ``passes``, ``alignment``, ``attention``, ``history``.
        """
        if prefix_tokens is not None and prefix_tokens.numel():
            raise ValueError("--prefix-size is not supported by translation_gmlm; leave it at 0")
        if constraints is not None:
            raise ValueError("--constraints is not supported by translation_gmlm; leave it out")
        # Not earlier: fairseq builds a generator before it loads weights, and trains on after.
        options = self.options
        how = options.decode_dtype, options.decode_compile, options.decode_cuda_graphs
        self.models = [for_decoding(model, *how) for model in self._originals]
        tokens = sample["net_input"]["src_tokens"]
        if temperature is not None and temperature.shape != tokens.shape[:1]:
            raise ValueError(
                f"temperature must have one value for each of {tokens.size(0)} sentences, not "
                f"shape {tuple(temperature.shape)}"
            )
        if temperature is not None and options.forbid_stutter:
            raise ValueError("a temperature cannot be combined with --forbid-stutter")
        source = Source.of(sample["net_input"], self.models[0].vocabulary)
        recorder = None
        if self.options.alignment or self.export_attention:
            recorder = AttentionRecorder(self.options.attention_pass)
        # Hooks may keep tensors for a use of their own, which autograd refuses for these.
        # (inference_mode(False) would turn gradients on again.)
        hooked = self.before_pass or self.logit_hook
        with torch.no_grad() if hooked else torch.inference_mode():
            result = self._run(source, sample.get("target"), temperature, recorder)
        found = self._collect(result, source, recorder)
        self._trimmer.after_batch(tokens.device)
        return found

    def _run(
        self,
        source: Source,
        target: Optional[Tensor],
        temperature: Optional[Tensor],
        recorder: Optional[AttentionRecorder],
    ) -> ChainResult:
        """Chains of all candidates."""
        options, model = self.options, self.models[0]
        memories = [m.encode(source.tokens, source.lengths) for m in self.models]
        output = None if options.oracle_length else averaged_lengths(self.models, memories)
        empty = ~source.words.any(1)
        lengths, _ = candidate_lengths(model, memories[0], options, target, empty, output)
        state, padded = start_chain(
            model,
            lengths,
            self.strategy.start,
            row_keys(source.tokens, source.words),
            options.decode_seed,
            self.pad,
        )
        banned = model.banned
        if options.allow_unk:
            banned = model.vocabulary.without_unk(banned)
        may_settle = None
        if temperature is not None:
            temperature = temperature.to(source.tokens.device, torch.float32)
            may_settle = (temperature < GREEDY_BELOW).repeat_interleave(options.candidates)
        conditional = ModelConditional(
            self.models,
            memories,
            options.choice,
            banned,
            padded,
            needs_approval=self.strategy.needs_approval,
            needs_logits=self.strategy.needs_logits,
            temperature=temperature,
            logit_hook=self.logit_hook,
            recorder=recorder,
            distinct=options.forbid_stutter,
        )
        keeps = self.strategy.keeps
        pruning = None
        if options.survivors < options.candidates:
            pruning = Pruning(options.survivors, options.prune_after, self._scores)
        result = run_chain(
            conditional,
            state,
            self.strategy,
            options.passes,
            candidates=options.candidates,
            early_stop=options.early_stop
            and (keeps or may_settle is not None or options.choice.greedy),
            may_settle=None if keeps else may_settle,
            keep_history=options.keep_history,
            before_pass=self.before_pass,
            pruning=pruning,
        )
        if options.rescore_passes:
            result = rescored(conditional, state, result, options.rescore_passes)
        return result

    def _collect(
        self, result: ChainResult, source: Source, recorder: Optional[AttentionRecorder]
    ) -> List[List[Dict[str, Any]]]:
        """Rank the candidates of each sentence."""
        options, count = self.options, self.options.survivors
        scores = self._scores(result).view(-1, count)
        if self.reranker is not None:
            model = self.models[0]
            scores = rerank(self.reranker, source.tokens, source.lengths, result, count, model)
        ranked = scores.topk(options.nbest, dim=1)
        order, values = ranked.indices.tolist(), ranked.values.tolist()
        rows = FinishedRows(result, options.keep_history)
        hypotheses = []
        for sentence, (places, best) in enumerate(zip(order, values)):
            found = []
            for place, score in zip(places, best):
                row = sentence * count + place
                item = rows.hypothesis(row, score)
                if recorder is not None:
                    real, words = source.real[sentence], source.words[sentence]
                    keep = rows.keep[row]
                    item.update(
                        hypothesis_attention(
                            recorder, rows.rows[row], keep, real, words, options.alignment
                        )
                    )
                found.append(item)
            hypotheses.append(found)
        chosen = [i * count + places[0] for i, places in enumerate(order)]
        self.counters.add(rows, chosen, count, options.candidates)
        return hypotheses

    def _scores(self, chains: Union[ChainResult, ChainState]) -> Tensor:
        """What candidates are compared by, float (R,)."""
        return candidate_scores(chains, self.options.length_penalty, self.options.brevity_alpha)
