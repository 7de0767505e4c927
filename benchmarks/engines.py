"""Systems that decode a batch: this plugin's generator, fairseq's two, and CTranslate2.

All produce the same number of tokens. A length of n means n tokens with EOS on each side: n - 1
words and EOS in the source (masked models read BOS besides), n steps of an autoregressive model, and
a canvas of BOS, n - 1 words and EOS for a masked one.
"""

from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, List, Optional

import torch
from random_models import Size, cmlm, gmlm, sentences, transformer


@dataclass(frozen=True)
class System:
    """What decodes.

    Attributes:
        name: ``gmlm``, ``cmlm``, ``transformer`` or ``transformer 12-1``.
        engine: ``fairseq_gmlm``, ``fairseq`` or ``ctranslate2``.
        dtype: number format.
        passes: decoder passes of masked models.
        beam: of autoregressive models; 1 is greedy search.
        cuda_graphs: replay passes from CUDA graphs (this plugin, GPU).
    """

    name: str
    engine: str
    dtype: str = "float32"
    passes: Optional[int] = None
    beam: Optional[int] = None
    cuda_graphs: bool = False

    @property
    def label(self) -> str:
        """As tables call it."""
        if self.beam is not None:
            return f"{self.name}, {'greedy' if self.beam == 1 else f'beam {self.beam}'}"
        return f"{self.name}, {self.passes} passes" + (", CUDA graphs" if self.cuda_graphs else "")


@dataclass(frozen=True)
class Setting:
    """What is decoded.

    Attributes:
        batch: sentences.
        length: tokens on each side, EOS counted.
        size: of the models.
        threads: of the CPU.
        device: ``cpu`` or ``cuda``.
    """

    batch: int = 1
    length: int = 25
    size: Size = field(default_factory=Size)
    threads: int = 1
    device: str = "cpu"


Run = Callable[[], List[List[int]]]


def batch_of(setting: Setting, bos: bool) -> dict:
    """fairseq's batch; the target only says how long it is."""
    words = sentences(setting.batch, setting.length - 1, setting.size.vocabulary)
    rows = torch.tensor(words, device=setting.device)
    front = [torch.zeros_like(rows[:, :1])]
    back = [torch.full_like(rows[:, :1], 2)]
    tokens = torch.cat([*(front if bos else []), rows, *back], 1)
    lengths = torch.full((setting.batch,), tokens.size(1), device=setting.device)
    return {
        "id": torch.arange(setting.batch),
        "nsentences": setting.batch,
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": torch.cat([*front, rows, *back], 1),
    }


def gmlm_run(system: System, setting: Setting, model: Any = None) -> Run:
    """This plugin's generator, mask-predict, every pass forced."""
    from fairseq_gmlm.decoding.config import DecodingConfig
    from fairseq_gmlm.decoding.generator import GMLMGenerator
    from fairseq_gmlm.decoding.options import DecodingOptions

    model = (model or gmlm(setting.size)).to(setting.device)
    generation = Namespace(
        iter_decode_max_iter=system.passes - 1,
        iter_decode_force_max_iter=True,
        oracle_length=True,
        decode_dtype=system.dtype,
        decode_cuda_graphs=system.cuda_graphs,
    )
    generator = GMLMGenerator([model], DecodingOptions.of(DecodingConfig(), generation))
    sample = batch_of(setting, bos=True)
    return lambda: [h[0]["tokens"].tolist() for h in generator.generate([model], sample)]


def cmlm_run(system: System, setting: Setting, model: Any = None) -> Run:
    """fairseq's iterative refinement, every pass forced, at the given length."""
    from fairseq.iterative_refinement_generator import IterativeRefinementGenerator

    model = _cast(model or cmlm(setting.size), system, setting)
    count = setting.length + 1
    model.decoder.forward_length_prediction = lambda length_out, encoder_out, tgt_tokens=None: (
        torch.full((setting.batch,), count, device=setting.device)
    )
    generator = IterativeRefinementGenerator(
        model.decoder.dictionary, max_iter=system.passes - 1, adaptive=False
    )
    sample = batch_of(setting, bos=True)
    return lambda: [h[0]["tokens"].tolist() for h in generator.generate([model], sample)]


def fairseq_run(system: System, setting: Setting, model: Any = None) -> Run:
    """fairseq's sequence generator with its cache, shortest and longest output alike."""
    from fairseq.sequence_generator import SequenceGenerator

    model = _cast(model or transformer(setting.size), system, setting)
    words = setting.length - 1
    generator = SequenceGenerator(
        [model], model.decoder.dictionary, beam_size=system.beam,
        max_len_a=0, max_len_b=words, min_len=words,
    )  # fmt: skip
    sample = batch_of(setting, bos=False)
    sample.pop("target")
    return lambda: [h[0]["tokens"].tolist() for h in generator.generate([model], sample)]


def _cast(model: Any, system: System, setting: Setting) -> Any:
    return model.to(setting.device, getattr(torch, system.dtype))


def ctranslate2_run(system: System, setting: Setting, folder: Path) -> Run:
    """CTranslate2 on a converted model, shortest and longest output alike."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder), device=setting.device, compute_type=system.dtype,
        intra_threads=setting.threads, inter_threads=1,
    )  # fmt: skip
    words = sentences(setting.batch, setting.length - 1, setting.size.vocabulary)
    rows = [[f"w{token - 4}" for token in row] for row in words]

    def run() -> List[List[int]]:
        found = translator.translate_batch(
            rows, beam_size=system.beam, max_input_length=0,
            min_decoding_length=setting.length, max_decoding_length=setting.length,
        )  # fmt: skip
        return [result.hypotheses[0] for result in found]

    return run


def build_run(system: System, setting: Setting, source: Any = None) -> Run:
    """The function that decodes the batch once.

    Args:
        system, setting: what and how.
        source: the model to decode with (random weights if None); for CTranslate2 its folder.
    """
    torch.set_num_threads(setting.threads)
    if system.engine == "ctranslate2":
        return ctranslate2_run(system, setting, source)
    builders = {"gmlm": gmlm_run, "cmlm": cmlm_run}
    return builders.get(system.name, fairseq_run)(system, setting, source)
