"""An autoregressive checkpoint in CTranslate2, which is what a fast engine makes of it."""

from pathlib import Path
from typing import Any, Dict, List

import torch

from fairseq_gmlm.comparison.spec import SystemSpec
from fairseq_gmlm.comparison.system import Output, SplitSystem, check_device
from fairseq_gmlm.data.beam_search import CTranslate2Engine, SearchOptions
from fairseq_gmlm.data.checkpoints import field, load_checkpoint, section
from fairseq_gmlm.data.databin import Languages, find_languages
from fairseq_gmlm.data.teacher import load_teacher
from fairseq_gmlm.errors import UserError

OPTIONS = ("beam", "lenpen", "max_len_a", "max_len_b")


class CTranslate2System(SplitSystem):
    """A fairseq transformer converted to CTranslate2; the conversion is not in the clock.

    Raises:
        UserError: a missing file or package, a model that CTranslate2 cannot run, other options
            than ``beam``, ``lenpen``, ``max_len_a`` and ``max_len_b``.
    """

    family = "autoregressive"

    def __init__(self, spec: SystemSpec, data: str, split: str, device: str = "cpu") -> None:
        self.spec, self.device = spec, torch.device("cpu")  # the engine moves ids by itself
        where = f"system {spec.name!r}"
        if not Path(spec.path).is_file():
            raise UserError(f"{where}: no checkpoint at {spec.path}")
        unknown = sorted(set(spec.options) - set(OPTIONS))
        if unknown:
            raise UserError(
                f"{where}: engine ctranslate2 has no option {unknown[0]!r}; it reads "
                f"{', '.join(OPTIONS)}"
            )
        try:
            state = load_checkpoint(Path(spec.path), mmap=True)
            task = section(state, "task")
            pair = Languages(field(task, "source_lang"), field(task, "target_lang"))
            pair = pair if all(pair) else find_languages(Path(data))
            teacher = load_teacher(Path(spec.path), Path(data), pair)
            self.engine = CTranslate2Engine(
                teacher,
                SearchOptions(**spec.options),
                spec.compute_type or "float32",
                cpu=check_device(device).type == "cpu",
                threads=torch.get_num_threads(),
            )
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        body = section(state, "model")
        self.kind = f"{field(body, '_name') or field(body, 'arch', '?')} (ctranslate2)"
        self.parameters = sum(p.numel() for p in teacher.model.parameters())
        self.longest_source = teacher.model.max_positions()[0]
        self.task = teacher.task
        self.load_split(split)

    def translate(self, batch: Dict[str, Any]) -> List[List[int]]:
        """Ids of the best hypothesis of each sentence, without EOS, in the batch's order."""
        dictionary = self.task.source_dictionary
        skip = {dictionary.pad(), dictionary.eos()}
        sources = batch["net_input"]["src_tokens"].tolist()
        return self.engine.translate([[i for i in row if i not in skip] for row in sources])

    def outputs(self, batch: Dict[str, Any], hypotheses: List[List[int]]) -> Dict[int, Output]:
        """Translations by sentence number."""
        dictionary = self.task.target_dictionary
        return {
            number: Output([dictionary[i] for i in ids], len(ids) + 1)
            for number, ids in zip(batch["id"].tolist(), hypotheses)
        }
