"""A trained system, whatever its kind, behind one method: a batch in, hypotheses out."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import GenerationConfig

from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class Output:
    """One translation.

    Attributes:
        tokens: subwords, special symbols left out.
        passes: decoder runs; for an autoregressive model, one a token, EOS included.
    """

    tokens: List[str]
    passes: int


class System:
    """A checkpoint with its task and its generator."""

    def __init__(self, spec: SystemSpec, data: str, split: str) -> None:
        self.spec = spec
        paths = [spec.path, *([spec.reranker] if spec.reranker else [])]
        for path in paths:
            if not Path(path).is_file():
                raise UserError(f"system {spec.name!r}: no checkpoint at {path}")
        try:
            for path in paths:  # fairseq does not name a file that it cannot read
                load_checkpoint(Path(path), mmap=True)
            self.models, cfg, self.task = checkpoint_utils.load_model_ensemble_and_task(
                paths[:1], arg_overrides={"data": data}
            )
            if spec.reranker:
                more, _ = checkpoint_utils.load_model_ensemble([spec.reranker], task=self.task)
                self.models += more
        except (ValueError, RuntimeError) as error:
            raise UserError(f"system {spec.name!r}: {error}") from error
        self.kind = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", "?"))
        self.task.load_dataset(split)
        self.dataset = self.task.dataset(split)
        defaults = Namespace(
            **{k: v.default for k, v in GenerationConfig.__dataclass_fields__.items()}
        )
        options = Namespace(**{**vars(defaults), **self._options()})
        for model in self.models:
            model.eval()
            model.prepare_for_inference_(Namespace(generation=options))
        try:
            self.generator = self.task.build_generator(self.models, options)
        except ValueError as error:
            raise UserError(f"system {spec.name!r}: {error}") from error

    def _options(self) -> Dict[str, Any]:
        """The row's options, each checked to be one that somebody reads."""
        options = dict(self.spec.options)
        if self.spec.reranker:
            options.setdefault("iter_decode_with_external_reranker", True)
        known = set(GenerationConfig.__dataclass_fields__) | set(vars(self.task.cfg))
        known |= set(self.task.cfg) if hasattr(self.task.cfg, "keys") else set()
        unknown = sorted(set(options) - known)
        if unknown:
            raise UserError(
                f"system {self.spec.name!r}: no decoding option is called {unknown[0]!r}"
            )
        return options

    @property
    def parameters(self) -> int:
        """Number of weights of the models that decode."""
        return sum(p.numel() for model in self.models for p in model.parameters())

    def collate(self, indices: Sequence[int]) -> Dict[str, Any]:
        """A batch of the split."""
        return self.dataset.collater([self.dataset[i] for i in indices])

    def translate(self, batch: Dict[str, Any]) -> List[Any]:
        """Best hypothesis of each sentence, as fairseq's dictionaries, in the batch's order.

        This is what is timed: encoder, length search, all passes and reranking.
        """
        with torch.no_grad():
            found = self.task.inference_step(self.generator, self.models, batch)
        return [hypotheses[0] for hypotheses in found]

    def outputs(self, batch: Dict[str, Any], hypotheses: List[Any]) -> Dict[int, Output]:
        """Translations by sentence number."""
        dictionary = self.task.target_dictionary
        strip = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
        strip |= getattr(self.generator, "symbols_to_strip_from_output", set())
        found = {}
        for number, hypothesis in zip(batch["id"].tolist(), hypotheses):
            ids = [i for i in hypothesis["tokens"].tolist() if i not in strip]
            # Stock NAT reports the number of the last step; autoregressive models none at all.
            steps = hypothesis.get("steps")
            passes = len(hypothesis["tokens"]) if steps is None else int(steps) + 1
            found[number] = Output([dictionary[i] for i in ids], passes)
        return found
