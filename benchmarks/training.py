"""fairseq's trainer around three models of one size, on the same random pairs.

Everything below the batches is what ``fairseq-train`` runs: its parser, task, criterion, Adam,
gradient clipping and ``Trainer.train_step`` with its logging.
"""

import contextlib
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import torch
from fairseq import options
from fairseq.data import (
    Dictionary,
    LanguagePairDataset,
    ListDataset,
    PrependTokenDataset,
    data_utils,
)
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import setup_task
from fairseq.trainer import Trainer
from torch import Tensor

import fairseq_gmlm  # noqa: F401  (registers the plugin)
from fairseq_gmlm.data.pairs import PairDataset

CORPUS = 30_000  # sentences from which batches are cut

# What fairseq-train is told for each system; the rest is the same for all.
SYSTEMS: Dict[str, List[str]] = {
    "gmlm_transformer": [
        *("--task", "translation_gmlm", "--criterion", "gmlm_loss"),
        *("--arch", "gmlm_transformer", "--train-dtype", "{dtype}"),
    ],
    "cmlm_transformer": [
        *("--task", "translation_lev", "--criterion", "nat_loss"),
        *("--arch", "cmlm_transformer", "--noise", "random_mask"),
    ],
    "transformer": [
        *("--task", "translation", "--criterion", "label_smoothed_cross_entropy"),
        *("--arch", "transformer"),
    ],
}


@dataclass(frozen=True)
class Size:
    """Of the models, the vocabulary and the batches.

    Attributes:
        layers: of the encoder, and of the decoder.
        width: d.
        ffn: inner width of the feed-forward layers.
        heads: attention heads.
        vocabulary: symbols, fairseq's specials among them.
        max_tokens: of a batch, padding counted, as ``--max-tokens``.
        mean_length: tokens of a target, on average.
    """

    layers: int = 3
    width: int = 256
    ffn: int = 512
    heads: int = 4
    vocabulary: int = 8000
    max_tokens: int = 2048
    mean_length: float = 20.0


@dataclass(frozen=True)
class Pairs:
    """Random sentences, and the batches that every system gets.

    Attributes:
        sources, targets: int64 ids, each ending in EOS.
        batches: indices.
    """

    sources: List[Tensor]
    targets: List[Tensor]
    batches: List[List[int]]

    def target_tokens(self, batch: Sequence[int]) -> int:
        """Words and EOS of the targets of a batch; no padding, no BOS."""
        return sum(len(self.targets[i]) for i in batch)


def random_lengths(count: int, mean: float, rng: np.random.Generator) -> np.ndarray:
    """Lengths (count, 2) of both sides: log-normal as in parallel text, related to each other."""
    sigma = 0.55
    source = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    target = source * rng.lognormal(0.0, 0.18, count)
    return np.stack([source, target], 1).round().clip(2, 8 * mean).astype(np.int64)


def random_pairs(size: Size, batches: int, seed: int = 1) -> Pairs:
    """Batches of a whole random corpus, as ``fairseq-train`` makes them for ``translation_lev``.

    Sorted by target and then source length, cut at ``max_tokens``, shuffled; so a batch's lengths
    are as alike as in a real epoch.
    """
    rng = np.random.default_rng(seed)
    lengths = random_lengths(CORPUS, size.mean_length, rng)
    order = np.lexsort((lengths[:, 1], lengths[:, 0]))
    widest = lengths.max(1) + 2  # BOS and EOS
    cut = data_utils.batch_by_size(
        order,
        num_tokens_fn=widest.__getitem__,
        num_tokens_vec=widest[order],
        max_tokens=size.max_tokens,
        required_batch_size_multiple=8,
    )
    eos, first = Dictionary().eos(), len(Dictionary())

    def sentence(length: int) -> Tensor:
        # few words make most of a text, roughly as Zipf says
        rank = rng.random(length) ** 3 * (size.vocabulary - first)
        return torch.cat([torch.from_numpy(rank.astype(np.int64) + first), torch.tensor([eos])])

    sources, targets, chosen = [], [], []
    for k in rng.permutation(len(cut))[:batches]:
        chosen.append(list(range(len(sources), len(sources) + len(cut[k]))))
        for source, target in lengths[cut[k]]:
            sources.append(sentence(source))
            targets.append(sentence(target))
    return Pairs(sources, targets, chosen)


def dictionary_of(size: Size) -> Dictionary:
    """fairseq's specials and invented words, ``size.vocabulary`` symbols."""
    found = Dictionary()
    for i in range(size.vocabulary - len(found)):
        found.add_symbol(f"w{i}", n=1)
    return found


def _plain(sources: List[Tensor], targets: List[Tensor], dictionary: Dictionary) -> Any:
    sizes = [np.array([len(s) for s in side]) for side in (sources, targets)]
    return LanguagePairDataset(
        ListDataset(sources, sizes[0]),
        sizes[0],
        dictionary,
        ListDataset(targets, sizes[1]),
        sizes[1],
        dictionary,
    )


def samples(system: str, pairs: Pairs, dictionary: Dictionary) -> List[Dict[str, Any]]:
    """The batches, collated as the system's own task does."""
    data = _plain(pairs.sources, pairs.targets, dictionary)
    if system == "gmlm_transformer":
        data = PairDataset.of(data, source_bos=None)
    elif system == "cmlm_transformer":  # translation_lev puts BOS before both
        bos = dictionary.bos()
        data.src = PrependTokenDataset(data.src, bos)
        data.tgt = PrependTokenDataset(data.tgt, bos)
        data.input_feeding = False
    return [data.collater([data[i] for i in batch]) for batch in pairs.batches]


def build_trainer(
    system: str, dtype: str, size: Size, folder: Path, extra: Sequence[str] = ()
) -> Trainer:
    """A trainer as ``fairseq-train`` makes it, at its first update.

    Args:
        system: of :data:`SYSTEMS`.
        dtype: ``--train-dtype`` of this plugin's task; fairseq's own know none that a CPU can run.
        size: of the model.
        folder: gets the dictionaries.
        extra: further options of ``fairseq-train``.
    """
    for language in ("a", "b"):
        path = folder / f"dict.{language}.txt"
        if not path.exists():
            dictionary_of(size).save(str(path))
    sides = [
        word
        for side in ("encoder", "decoder")
        for word in (
            *(f"--{side}-layers", str(size.layers), f"--{side}-embed-dim", str(size.width)),
            *(f"--{side}-ffn-embed-dim", str(size.ffn)),
            *(f"--{side}-attention-heads", str(size.heads)),
        )
    ]
    words = [
        *(str(folder), "--source-lang", "a", "--target-lang", "b", "--share-all-embeddings"),
        *(word.format(dtype=dtype) for word in SYSTEMS[system]),
        *sides,
        *("--label-smoothing", "0.1", "--dropout", "0.1", "--optimizer", "adam"),
        *("--adam-betas", "(0.9,0.98)", "--clip-norm", "1.0", "--lr", "5e-4"),
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "4000", "--seed", "1"),
        *("--max-tokens", str(size.max_tokens), "--required-batch-size-multiple", "8"),
        *extra,
    ]
    if not torch.cuda.is_available():
        words.append("--cpu")
    parser = options.get_training_parser()
    with contextlib.redirect_stdout(io.StringIO()):
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, words))
    torch.manual_seed(cfg.common.seed)
    task = setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    trainer = Trainer(cfg, task, model, criterion)
    trainer.begin_epoch(1)
    return trainer


class Updates:
    """A system and its batches; each call is one update with the next of them.

    Attributes:
        tokens: target tokens of each update so far.
        optimizer_ms: time of its optimizer step.
        target_fill: share of target positions that are no padding.
        device: where it is trained.
    """

    def __init__(self, system: str, dtype: str, size: Size, pairs: Pairs, folder: Path) -> None:
        self._trainer = build_trainer(system, dtype, size, folder)
        dictionary = self._trainer.task.target_dictionary
        self._samples = samples(system, pairs, dictionary)
        self._counts = [pairs.target_tokens(batch) for batch in pairs.batches]
        real = sum(int(s["target"].ne(dictionary.pad()).sum()) for s in self._samples)
        self.target_fill = real / sum(s["target"].numel() for s in self._samples)
        self.device = self._trainer.device.type
        self.tokens: List[int] = []
        self.optimizer_ms: List[float] = []
        optimizer = self._trainer.optimizer.optimizer
        optimizer.register_step_pre_hook(lambda *_: self.optimizer_ms.append(self._now()))
        optimizer.register_step_post_hook(lambda *_: self._note())

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return 1e3 * time.perf_counter()

    def _note(self) -> None:
        self.optimizer_ms[-1] = self._now() - self.optimizer_ms[-1]

    def __call__(self) -> None:
        """One update."""
        number = len(self.tokens) % len(self._samples)
        self.tokens.append(self._counts[number])
        self._trainer.train_step([self._samples[number]])
