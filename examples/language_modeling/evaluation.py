"""Perplexities, samples and filled templates of trained models."""

import json
import math
import statistics
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from systems import LONGEST, Size

import fairseq_gmlm
from fairseq_gmlm.data.codec import Codec
from fairseq_gmlm.decoding.canvas import FREE, Canvas
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.filling import FillOptions, TemplateFiller
from fairseq_gmlm.decoding.lm_generator import TextGenerator
from fairseq_gmlm.decoding.strategies.any_order import AnyOrder
from fairseq_gmlm.scoring import Scorer, Text, Total
from fairseq_gmlm.scoring.models import ModelLogProbs, frame_of
from fairseq_gmlm.words import guess_marker, word_table

ORDERS = ("left-to-right", "random", "surest-first")
TEMPLATES = (
    "She was very ___ to see him .",
    "The ___ was ___ by the ___ .",
    "It was ___{2,4} that he ___{1,3} her .",
    '" I am ___{1,4} , " said he .',
)


def load(checkpoint: Path, data: Path) -> Any:
    """Model in evaluation mode, and its task."""
    from fairseq import checkpoint_utils

    fairseq_gmlm.register()
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    return models[0].eval(), task


def texts_of(path: Path, dictionary: Any, count: int) -> List[Text]:
    """The first ``count`` segmented sentences that fit the model."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        ids = [dictionary.index(piece) for piece in line.split()]
        if len(ids) <= LONGEST - 2:
            found.append(Text.of(torch.tensor(ids)))
        if len(found) == count:
            break
    return found


def word_count(texts: Sequence[Text], dictionary: Any) -> int:
    """Words of texts in subwords."""
    table = word_table(dictionary.symbols, guess_marker(dictionary.symbols))
    return sum(int(table.starts(text.tokens[None]).sum()) for text in texts)


def masked_perplexities(checkpoint: Path, data: Path, test: Path, size: Size) -> Dict[str, Any]:
    """Per token and word from left to right and in random orders, and by pseudo-likelihood."""
    model, task = load(checkpoint, data)
    texts = texts_of(test, task.dictionary, size.scored)
    tokens, words = sum(t.count for t in texts), word_count(texts, task.dictionary)
    scorer = Scorer(ModelLogProbs([model]), frame_of(model.vocabulary))
    measures = {
        "left-to-right": scorer.left_to_right(texts),
        "random": scorer.random_orders(texts, size.orders),
        "pseudo": scorer.pseudo(texts),
    }
    found: Dict[str, Any] = {"tokens": tokens, "words": words, "texts": len(texts)}
    for name, values in measures.items():
        total = Total()
        total.add(values)
        found[name] = total.report(tokens, words)
    return found


@torch.no_grad()
def autoregressive_perplexities(
    checkpoint: Path, data: Path, test: Path, size: Size
) -> Dict[str, Any]:
    """From left to right. The end of the text is not counted: the masked models know the length."""
    model, task = load(checkpoint, data)
    dictionary = task.source_dictionary
    texts = texts_of(test, dictionary, size.scored)
    tokens, words = sum(t.count for t in texts), word_count(texts, dictionary)
    scores, ends = [], []
    for text in texts:
        target = torch.cat([text.tokens, torch.tensor([dictionary.eos()])])
        shown = torch.cat([target[-1:], target[:-1]])
        log_probs = model(shown[None])[0][0].double().log_softmax(-1)
        gold = log_probs.gather(-1, target[:, None]).squeeze(-1)
        scores.append(float(gold[:-1].sum()))
        ends.append(float(gold[-1]))
    total = Total()
    total.add(torch.tensor(scores, dtype=torch.double))
    found: Dict[str, Any] = {"tokens": tokens, "words": words, "texts": len(texts)}
    found["left-to-right"] = total.report(tokens, words)
    found["perplexity_per_token_with_end"] = math.exp(
        -(sum(scores) + sum(ends)) / (tokens + len(texts))
    )
    return found


class _Subwords:
    """subword-nmt's ``encode`` and ``decode`` as fairseq's encoders have them."""

    def __init__(self, cut: Any) -> None:
        self.cut = cut

    def encode(self, text: str) -> str:
        return " ".join(self.cut(text.split()))

    def decode(self, text: str) -> str:
        return (text + " ").replace("@@ ", "").rstrip()


def generations(checkpoint: Path, data: Path, cut: Any, seed: int) -> Dict[str, Any]:
    """Samples in three orders, and the templates filled in."""
    model, task = load(checkpoint, data)
    codec = Codec(bpe=_Subwords(cut))
    samples: Dict[str, List[str]] = {}
    table = word_table(task.dictionary.symbols, guess_marker(task.dictionary.symbols))
    for order in ORDERS:
        # Surest first must not sample tokens too boldly: it would be sure of nothing.
        choice = Choice(temperature=0.8, top_k=40)
        generator = TextGenerator([model], AnyOrder(order), choice, seed=seed, table=table)
        length = 16
        canvases = [
            Canvas([FREE] * length, key, firsts=(0,), lasts=(length - 1,)) for key in range(3)
        ]
        samples[order] = [
            codec.decode([task.dictionary[i] for i in done.tokens])
            for done in generator.complete(canvases)
        ]
    generator = TextGenerator([model], AnyOrder("surest-first"), Choice(), seed=seed, table=table)
    filler = TemplateFiller(
        generator, task.dictionary, codec, FillOptions(blank=(1, 2), unknown=True)
    )
    plans = [filler.plan(template, number) for number, template in enumerate(TEMPLATES, 1)]
    filled = [found[0].text for found in filler.fill(plans)]
    return {"samples": samples, "templates": dict(zip(TEMPLATES, filled))}


def spread(values: Sequence[float]) -> Dict[str, Any]:
    """Mean and standard deviation (None for one value)."""
    return {
        "values": list(values),
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
    }


def cached(path: Path, compute: Any) -> Any:
    """What ``compute()`` gives, kept in a JSON file."""
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    from fairseq_gmlm.data.files import write_json

    value = compute()
    write_json(path, value)
    return value
