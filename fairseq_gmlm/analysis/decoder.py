"""Any trained model over the sentences of a split, or over lines of text."""

import logging
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np
import torch
from fairseq import utils
from torch import Tensor

from fairseq_gmlm.analysis.chains import Chain, chain_of
from fairseq_gmlm.analysis.decoding_values import generation_options
from fairseq_gmlm.decoding.generator import GMLMGenerator
from fairseq_gmlm.errors import UserError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decoded:
    """A sentence with its chains.

    Attributes:
        number: in its split or input, from 0.
        source: ids without BOS and EOS; target: the reference's, or None.
        chains: candidates, best first.
    """

    number: int
    source: List[int]
    target: Optional[List[int]]
    chains: List[Chain]


class Decoder:
    """Models, their task and one generator.

    Args:
        models: of any fairseq translation task, in evaluation mode; for a reranked run the last
            is the reranker, as in ``fairseq-generate``.
        task: theirs.
        values: decoding options by name; the history is always kept.
        seed: of random starts and samples.

    Raises:
        UserError: options that nobody reads, or that contradict each other.
    """

    def __init__(
        self, models: Sequence[Any], task: Any, values: Dict[str, Any], seed: int = 1
    ) -> None:
        self.models, self.task = list(models), task
        options = generation_options({**values, "retain_iter_history": True}, task, seed)
        for model in self.models:
            model.prepare_for_inference_(Namespace(generation=options))
        try:
            self.generator = task.build_generator(self.models, options)
        except ValueError as error:
            raise UserError(f"--path, --options, --set: {error}") from error
        dictionary = task.target_dictionary
        self.strip = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
        self.device = next(self.models[0].parameters()).device

    @property
    def is_gmlm(self) -> bool:
        """The chain can be looked at pass by pass."""
        return isinstance(self.generator, GMLMGenerator)

    @property
    def candidates(self) -> int:
        """Chains per sentence."""
        return self.generator.options.candidates if self.is_gmlm else 1

    @property
    def survivors(self) -> int:
        """Chains per sentence that are run to their end."""
        return self.generator.options.survivors if self.is_gmlm else 1

    @property
    def masks(self) -> Tensor:
        """int64, ids that may not be left in an output."""
        vocabulary = getattr(self.models[0], "vocabulary", None)
        if vocabulary is not None:
            return vocabulary.mask_ids
        # fairseq's own NAT models mask with the unknown symbol; autoregressive ones do not mask.
        masked = hasattr(self.models[0], "initialize_output_tokens")
        return torch.tensor([self.task.target_dictionary.unk()] if masked else [])

    def split(self, name: str, sentences: int = 0) -> Any:
        """A split's dataset and the numbers of ``sentences`` of it, spread evenly (0: all).

        Raises:
            UserError: no such split.
        """
        try:
            self.task.load_dataset(name)
        except (OSError, FileNotFoundError) as error:
            raise UserError(f"--gen-subset {name}: not in the data-bin ({error})") from error
        dataset = self.task.dataset(name)
        total = len(dataset)
        count = min(sentences, total) if sentences else total
        return dataset, [i * total // count for i in range(count)]

    def limits(self) -> Any:
        """Most source and target tokens."""
        each = [model.max_positions() for model in self.models]
        return utils.resolve_max_positions(self.task.max_positions(), *each)

    def batches(self, dataset: Any, numbers: Sequence[int], max_tokens: int) -> Iterator[Any]:
        """Batches by length, on the model's device.

        Sentences longer than the model allows are left out, with a warning.
        """
        wanted = set(numbers)
        indices = np.array([i for i in dataset.ordered_indices() if int(i) in wanted])
        indices, ignored = dataset.filter_indices_by_size(indices, self.limits())
        if ignored:
            logger.warning(f"{len(ignored)} sentences are longer than the model allows: left out")
        for batch in dataset.batch_by_size(indices, max_tokens=max_tokens):
            made = dataset.collater([dataset[int(i)] for i in batch])
            yield utils.move_to_cuda(made) if self.device.type == "cuda" else made

    def decode(self, batch: Dict[str, Any]) -> List[Decoded]:
        """Chains of a batch, in its order."""
        found = self.task.inference_step(self.generator, self.models, batch)
        sources = batch["net_input"]["src_tokens"].tolist()
        targets = batch.get("target")
        references = [None] * len(sources) if targets is None else targets.tolist()
        return [
            Decoded(
                number,
                self.words(source, self.task.source_dictionary),
                None if target is None else self.words(target, self.task.target_dictionary),
                [chain_of(hypothesis, self.candidates, self.strip) for hypothesis in hypotheses],
            )
            for number, source, target, hypotheses in zip(
                batch["id"].tolist(), sources, references, found
            )
        ]

    @staticmethod
    def words(ids: Sequence[int], dictionary: Any) -> List[int]:
        """Without BOS, EOS and padding."""
        strip = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
        return [i for i in ids if i not in strip]
