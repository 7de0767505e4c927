"""Score texts with a masked language model, or translations with a masked translation model.

    fairseq-gmlm score --path CHECKPOINT --data DATA_BIN --input texts.txt
    fairseq-gmlm score --path CHECKPOINT --data DATA_BIN --gen-subset test --measures random bound

Log-likelihoods are in nats and given the length of the text; perplexities are per token of the
model and per word. Measures: left-to-right, right-to-left and random (several permutations, with
standard error) and file are log-likelihoods in an order; pseudo hides one token at a time; bound is
masked diffusion's lower bound by Monte Carlo; exact enumerates all hidden sets (12 tokens at most).
A text with a fault is left out, with a message on standard error and exit status 1 at the end.
"""

import argparse
import json
import sys
from typing import Any, Callable, Dict, Iterator, List

from fairseq_gmlm.errors import UserError

HELP = "score texts or translations with a masked model"
MEASURES = ("left-to-right", "right-to-left", "random", "file", "pseudo", "bound", "exact")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, texts, measures and tokenisation."""
    from fairseq_gmlm.cli.loading import add_model_arguments
    from fairseq_gmlm.data.codec import add_codec_arguments

    add_model_arguments(parser)
    add = parser.add_argument
    add("--input", default="-", metavar="FILE", help="texts, one a line (default: standard input)")
    add("--source", metavar="FILE", help="translation models: sources of the lines of --input")
    add("--source-text-lang", metavar="LANG", help="language of --source for moses")
    add("--gen-subset", metavar="SPLIT", help="score this split of the data-bin instead")
    add("--measures", nargs="+", choices=MEASURES, metavar="MEASURE",
        default=["left-to-right", "random", "pseudo"],
        help=f"any of {', '.join(MEASURES)} (default: left-to-right random pseudo)")  # fmt: skip
    add("--orders", type=int, default=4, metavar="N", help="permutations a text (default: 4)")
    add("--order-file", metavar="FILE",
        help="for the measure file: an order such as '3 1 2' on a line, for texts of as many tokens")  # fmt: skip
    add("--bound-samples", type=int, default=32, metavar="N",
        help="hidden sets a text for the bound (default: 32)")  # fmt: skip
    add("--keep-unknown", action="store_true", help="score unknown words as the unknown symbol")
    add("--per-line", action="store_true", help="also report each text")
    add("--format", choices=["text", "json"], default="text", help="of the report (default: text)")
    add_codec_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report.

    Returns:
        1 if any text had a fault, else 0.

    Raises:
        UserError: options or files at fault.
    """
    from fairseq_gmlm.cli.loading import load_models

    _check(args)
    models, task = load_models(args)
    if any(getattr(m, "vocabulary", None) is None or not hasattr(m, "decode") for m in models):
        raise UserError(
            f"--path {args.path}: no masked model of this plugin; give a checkpoint of gmlm_lm or "
            "gmlm_transformer (fairseq's own language models: fairseq-eval-lm)"
        )
    report = _Report(args, models, task)
    faults = report.read(_items(args, models, task))
    report.write()
    return 1 if faults else 0


def _check(args: argparse.Namespace) -> None:
    for name in ("orders", "bound_samples"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}")  # fmt: skip
    if ("file" in args.measures) != (args.order_file is not None):
        raise UserError("the measure file and --order-file FILE belong together; give both or none")
    if args.gen_subset and (args.input != "-" or args.source):
        raise UserError(
            "--gen-subset takes texts from the data-bin; leave --input and --source out"
        )


def _items(args: argparse.Namespace, models: List[Any], task: Any) -> Iterator[Any]:
    """Texts and faults, from wherever the options say."""
    from fairseq_gmlm.data.codec import Codec
    from fairseq_gmlm.scoring.reading import Reader, read_sources

    translation = hasattr(models[0], "encode")
    sides = [m.max_positions() for m in models]
    longest = min(side[1] if translation else side for side in sides) - 2
    reader = Reader.of(task.target_dictionary, models[0].vocabulary, longest, args.keep_unknown)
    if args.gen_subset:
        try:
            task.load_dataset(args.gen_subset)
        except (ValueError, OSError) as error:
            raise UserError(f"--gen-subset {args.gen_subset}: {error}") from error
        dataset = task.dataset(args.gen_subset)
        if translation and dataset.tgt is None:
            raise UserError(f"--gen-subset {args.gen_subset}: has no references")
        return reader.pairs(dataset) if translation else reader.texts(dataset)
    if translation != bool(args.source):
        raise UserError(
            "a translation model needs --source FILE beside --input FILE, or --gen-subset"
            if translation
            else "a language model has no source; leave --source out"
        )
    sources = None
    if args.source:
        language = args.source_text_lang or args.text_lang
        codec = Codec.of(argparse.Namespace(**{**vars(args), "text_lang": language}))
        sources = read_sources(
            args.source, codec, task.source_dictionary, min(side[0] for side in sides)
        )
    return reader.lines(args.input, Codec.of(args), sources)


class _Report:
    """Scores chunk by chunk, sums, and what is printed in the end."""

    def __init__(self, args: argparse.Namespace, models: List[Any], task: Any) -> None:
        from fairseq_gmlm.decoding.orders import read_orders
        from fairseq_gmlm.scoring import Total

        self.args, self.models = args, models
        self.given = read_orders(args.order_file) if args.order_file else {}
        names = [m for m in dict.fromkeys(args.measures) if m != "exact"]
        if "exact" in args.measures:
            names += ["exact-mean", "exact-mixture"]
        self.totals: Dict[str, Any] = {name: Total() for name in names}
        self.lines: List[Dict[str, Any]] = []
        self.texts = self.tokens = self.words = 0

    def read(self, items: Iterator[Any], chunk: int = 64) -> int:
        """Score everything; returns the number of faults."""
        from fairseq_gmlm.scoring.reading import Fault

        faults, waiting = 0, []
        for item in items:
            if isinstance(item, Fault):
                print(f"{self._where()}{item.message}", file=sys.stderr)
                faults += 1
                continue
            waiting.append(item)
            if len(waiting) == chunk:
                faults += self._score(waiting)
                waiting = []
        return faults + (self._score(waiting) if waiting else 0)

    def _where(self) -> str:
        name = self.args.gen_subset or self.args.input
        return "standard input, " if name == "-" else f"{name}, "

    def _score(self, items: List[Any]) -> int:
        """Take in a chunk of texts; those that a measure cannot score are faults."""
        from fairseq_gmlm.scoring.scorer import LONGEST_EXACT

        kept = []
        for item in items:
            count, problem = item.text.count, None
            if "exact" in self.args.measures and count > LONGEST_EXACT:
                problem = f"{count} tokens, and the measure exact takes {LONGEST_EXACT}"
            elif "file" in self.args.measures and count and count not in self.given:
                problem = f"--order-file has no order of {count} tokens"
            if problem:
                unit = "text" if self.args.gen_subset else "line"
                print(f"{self._where()}{unit} {item.number}, column 1: {problem}", file=sys.stderr)
            else:
                kept.append(item)
        if kept:
            self._take(kept)
        return len(items) - len(kept)

    def _take(self, items: List[Any]) -> None:
        scores = self._measure(items)
        for name, values in scores.items():
            self.totals[name].add(values)
        self.texts += len(items)
        self.tokens += sum(item.text.count for item in items)
        self.words += sum(item.words for item in items)
        if not self.args.per_line:
            return
        for column, item in enumerate(items):
            line: Dict[str, Any] = {"number": item.number, "tokens": item.text.count,
                                    "words": item.words}  # fmt: skip
            for name, values in scores.items():
                line[name] = float(values[..., column].mean())
                if values.dim() > 1 and len(values) > 1:
                    spread = float(values[:, column].std())
                    line[f"{name}_standard_error"] = spread / len(values) ** 0.5
            self.lines.append(line)

    def _measure(self, items: List[Any]) -> Dict[str, Any]:
        import torch

        from fairseq_gmlm.scoring import Scorer
        from fairseq_gmlm.scoring.models import ModelLogProbs, frame_of

        args, texts = self.args, [item.text for item in items]
        keys = [item.number for item in items]
        source = lengths = None
        if items[0].source is not None:
            lengths = torch.tensor([len(item.source) for item in items])
            pad = self.models[0].vocabulary.pad
            source = torch.nn.utils.rnn.pad_sequence(
                [item.source for item in items], batch_first=True, padding_value=pad
            )
        conditional = ModelLogProbs(self.models, source, lengths)
        scorer = Scorer(
            conditional, frame_of(self.models[0].vocabulary), args.max_tokens, args.seed
        )
        measures: Dict[str, Callable[[], Any]] = {
            "left-to-right": lambda: scorer.left_to_right(texts),
            "right-to-left": lambda: scorer.right_to_left(texts),
            "random": lambda: scorer.random_orders(texts, args.orders, keys),
            "pseudo": lambda: scorer.pseudo(texts),
            "bound": lambda: scorer.bound(texts, args.bound_samples, keys),
            "file": lambda: scorer.in_order(
                texts, [self.given.get(t.count, torch.arange(0)) for t in texts]
            ),
        }
        found = {name: measures[name]() for name in self.totals if name in measures}
        if "exact" in args.measures:
            exact = scorer.exact(texts)
            found["exact-mean"] = torch.tensor([e.mean for e in exact], dtype=torch.double)
            found["exact-mixture"] = torch.tensor([e.mixture for e in exact], dtype=torch.double)
        return found

    def write(self) -> None:
        """Print the report."""
        measures = {
            name: total.report(self.tokens, self.words) for name, total in self.totals.items()
        }
        if self.args.format == "json":
            report: Dict[str, Any] = {
                "path": self.args.path, "texts": self.texts, "tokens": self.tokens,
                "words": self.words, "seed": self.args.seed, "measures": measures,
            }  # fmt: skip
            if self.args.per_line:
                report["lines"] = self.lines
            print(json.dumps(report, indent=1))
            return
        if self.lines:
            print("\t".join(self.lines[0]))
            for line in self.lines:
                print("\t".join(_shown(value) for value in line.values()))
        print(f"{self.texts} texts, {self.tokens} tokens, {self.words} words")
        for name, values in measures.items():
            print(f"{name}: " + ", ".join(f"{k} {_shown(v)}" for k, v in values.items()))


def _shown(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
