"""A trained system, whatever its kind, behind one method: a batch in, hypotheses out."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.nat import FairseqNATModel
from fairseq.models.nat.levenshtein_transformer import LevenshteinTransformerModel

from fairseq_gmlm.comparison.decoder_runs import DecoderRuns
from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.data.checkpoints import load_checkpoint
from fairseq_gmlm.data.whole import check_split, data_folder
from fairseq_gmlm.errors import UserError


@dataclass(frozen=True)
class Output:
    """One translation.

    Attributes:
        tokens: subwords, special symbols left out.
        passes: decoder runs; for an autoregressive model, one a token, EOS included.
        leftovers: masks (in fairseq's NAT models: unknown symbols) that decoding has left behind.
    """

    tokens: List[str]
    passes: float
    leftovers: int = 0


class SplitSystem:
    """What all systems share: a task, and one split of its data in batches.

    Attributes:
        spec: the row.
        kind: architecture, as it was trained.
        family: ``autoregressive``, ``nat`` (fairseq's models) or ``gmlm`` (this plugin's).
        longest_source: most source subwords that the model has positions for; None: it answers
            longer ones by itself.
    """

    spec: SystemSpec
    kind: str
    family: str
    task: Any
    dataset: Any
    split: str
    device: torch.device
    longest_source: Optional[int] = None

    def load_split(self, split: str) -> None:
        """Read the data.

        Raises:
            UserError: the data-bin has no such split, or a damaged one.
        """
        check_split(data_folder(self.task.cfg.data, 1), split)
        try:
            self.task.load_dataset(split)
        except FileNotFoundError as error:
            raise UserError(f"'split: {split}': {error}") from error
        self.dataset, self.split = self.task.dataset(split), split

    def fits(self, number: int) -> bool:
        """Whether the model can read a source; fairseq's would stop, or take all memory."""
        return self.longest_source is None or self.dataset.src_sizes[number] <= self.longest_source

    def collate(self, indices: Sequence[int]) -> Dict[str, Any]:
        """A batch of the split, on the device."""
        batch = self.dataset.collater([self.dataset[i] for i in indices])
        return utils.move_to_cuda(batch) if self.device.type == "cuda" else batch


def check_device(name: str) -> torch.device:
    """The device called ``cpu`` or ``cuda``.

    Raises:
        UserError: there is no GPU.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("'device: cuda' needs a GPU that torch can use; there is none")
    return torch.device(name)


class System(SplitSystem):
    """A checkpoint with its task and its generator, decoded by fairseq or by this plugin.

    Raises:
        UserError: a missing or unreadable file, options that nobody reads or that contradict.
    """

    def __init__(self, spec: SystemSpec, data: str, split: str, device: str = "cpu") -> None:
        self.spec, self.device = spec, check_device(device)
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
        except Exception as error:  # fairseq raises plain Exception, too
            raise UserError(f"system {spec.name!r}: {error}") from error
        self.kind = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", "?"))
        self.family = _family(self.models[0])
        if self.family != "gmlm":
            self.longest_source = min(model.max_positions()[0] for model in self.models)
        self.load_split(split)
        defaults = Namespace(
            **{k: v.default for k, v in GenerationConfig.__dataclass_fields__.items()}
        )
        options = Namespace(**{**vars(defaults), **self._options()})
        for model in self.models:
            model.eval().to(self.device)
            model.prepare_for_inference_(Namespace(generation=options))
        try:
            self.generator = self.task.build_generator(self.models, options)
        except ValueError as error:
            raise UserError(f"system {spec.name!r}: {error}") from error
        self._runs: Optional[DecoderRuns] = None
        if isinstance(self.models[0], LevenshteinTransformerModel):
            self._runs = DecoderRuns(self.models[0].decoder)
        self._strip, self._masks = self._symbols()

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

    def _symbols(self) -> Tuple[Set[int], Set[int]]:
        """Ids that are no text, and those among all ids that stand for a blank."""
        dictionary = self.task.target_dictionary
        frame = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
        strip = frame | set(getattr(self.generator, "symbols_to_strip_from_output", set()))
        blanks = {"gmlm": strip - frame, "nat": {dictionary.unk()}}
        return strip, blanks.get(self.family, set())

    @property
    def parameters(self) -> int:
        """Number of weights of the models that decode."""
        return sum(p.numel() for model in self.models for p in model.parameters())

    def translate(self, batch: Dict[str, Any]) -> List[Any]:
        """Best hypothesis of each sentence, as fairseq's dictionaries, in the batch's order.

        This is what is timed: encoder, length search, all passes and reranking.
        """
        if self._runs is not None:
            self._runs.reset()
        with torch.no_grad():
            found = self.task.inference_step(self.generator, self.models, batch)
        best = [hypotheses[0] for hypotheses in found]
        if self._runs is not None:
            for hypothesis in best:
                hypothesis["passes"] = self._runs.sentences / len(best)
        return best

    def outputs(self, batch: Dict[str, Any], hypotheses: List[Any]) -> Dict[int, Output]:
        """Translations by sentence number."""
        dictionary = self.task.target_dictionary
        found = {}
        for number, hypothesis in zip(batch["id"].tolist(), hypotheses):
            everything = hypothesis["tokens"].tolist()
            ids = [i for i in everything if i not in self._strip]
            # Stock NAT reports the number of the last step; autoregressive models none at all.
            steps = hypothesis.get("steps")
            passes = len(everything) if steps is None else int(steps) + 1
            found[number] = Output(
                [dictionary[i] for i in ids],
                hypothesis.get("passes", passes),
                sum(i in self._masks for i in everything),
            )
        return found


def _family(model: Any) -> str:
    if isinstance(model, FairseqNATModel):
        return "nat"
    return "gmlm" if hasattr(model, "length_predictor") else "autoregressive"
