"""The refinement loop, line by line, in plain Python on lists (spec 3.4, 3.6, 8.1).

Slow and independent: it shares no code with the package. The model is only asked for the logits of
one canvas at a time, in a batch of one.
"""

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

_ALL = (1 << 64) - 1


def mix(x: int) -> int:
    """splitmix64's finaliser on unsigned integers."""
    x = (x + 0x9E3779B97F4A7C15) & _ALL
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _ALL
    return x ^ (x >> 31)


def sentence_key(words: Sequence[int]) -> int:
    """Key of a source's words."""
    return sum(mix(mix(w) ^ mix(-place & _ALL)) for place, w in enumerate(words, 1)) & _ALL


def uniform(seed: int, row: int, stream: int, column: int) -> float:
    """The counter generator's draw in [0, 1)."""
    rows = mix(mix(seed) ^ (row & _ALL))
    return (mix((mix(rows ^ mix(stream)) + mix(column)) & _ALL) >> 40) / (1 << 24)


def log_softmax(logits: List[float]) -> List[float]:
    """Natural logarithms."""
    most = max(logits)
    log_z = most + math.log(sum(math.exp(x - most) for x in logits))
    return [x - log_z for x in logits]


def argmax(values: List[float]) -> int:
    """First of the largest."""
    return max(range(len(values)), key=lambda i: (values[i], -i))


def stutters(draft: List[int]) -> List[int]:
    """Places that repeat their left neighbour."""
    return [i for i in range(1, len(draft)) if draft[i] == draft[i - 1]]


class Reference:
    """Refines one sentence at a time.

    Args:
        model: asked for logits, lengths and the rejecter's verdict.
        start, rejecter, remasking, remask_stutter: the options.
        passes: most passes; early_stop: stop when the draft repeats.
        bottom_k, bottom_percent: of the rejecter ``constant``.
        lengths, offsets: sizes of the two length beams.
        seed: of random starts.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = model
        self.options: Dict[str, Any] = {
            "early_stop": True,
            "bottom_k": None,
            "bottom_percent": None,
            "lengths": 1,
            "offsets": 1,
            "seed": 1,
        }
        self.options.update(options)
        vocabulary = model.vocabulary
        self.bos, self.eos = vocabulary.bos, vocabulary.eos
        self.banned = set(vocabulary.banned.tolist())
        self.ordinary = vocabulary.ordinary.tolist()
        self.mask, self.mask_ids = vocabulary.mask, vocabulary.mask_ids.tolist()

    def candidate_lengths(self, source: List[int]) -> List[int]:
        """Numbers of free tokens."""
        memory = self.model.encode(torch.tensor([source]))
        logits = self.model.lengths(memory)[0].tolist()
        order = sorted(range(3, len(logits)), key=lambda n: -logits[n])
        half, found = self.options["offsets"] // 2, []
        for length in order[: self.options["lengths"]]:
            for offset in range(-half, half + 1):
                found.append(min(max(min(max(length + offset, 2), 16), 3), 16) - 2)
        return found

    def start(self, words: List[int], count: int, number: int) -> List[int]:
        """What stands there at first."""
        if self.options["start"] == "mask":
            return [self.mask] * count
        if self.options["start"] == "mask-range":
            return self.mask_ids[:count]
        row = sentence_key(words) + number
        draws = [uniform(self.options["seed"], row, 1, place) for place in range(count)]
        return [self.ordinary[int(u * len(self.ordinary))] for u in draws]

    def look(self, source: List[int], tokens: List[int]) -> Tuple[List[List[float]], List[float]]:
        """Logits of each free position, banned ones at -inf, and the rejecter's log-odds."""
        canvas = torch.tensor([[self.bos, *tokens, self.eos]])
        memory = self.model.encode(torch.tensor([source]))
        states = self.model.decode(canvas, memory).states
        logits = self.model.logits(states)[0, 1:-1].tolist()
        for row in logits:
            for symbol in self.banned:
                row[symbol] = -math.inf
        if self.model.rejecter is None:
            return logits, []
        verdict = self.model.rejecter(states)[0, 1:-1].tolist()
        return logits, [right - wrong for wrong, right in verdict]

    def reject(self, draft, best, approval, step) -> List[int]:
        """Places that are not approved."""
        name, size, passes = self.options["rejecter"], len(draft), self.options["passes"]
        if name == "passthrough":
            return []
        if name == "stutter":
            return stutters(draft)
        if name == "learned":
            return [i for i in range(size) if approval[i] <= 0]
        if name == "linear-schedule":
            count = size * (passes - step - 1) // passes
            if step + 1 < passes:
                count = max(count, 1)
        elif self.options["bottom_k"] is not None:
            count = self.options["bottom_k"]
        else:
            count = max(1, math.floor(size * self.options["bottom_percent"] / 100))
        order = sorted(range(size), key=lambda i: (best[i], i))
        return order[:count]

    def refine(self, source: List[int], initial: List[int]) -> Dict[str, Any]:
        """One chain."""
        remasking = self.options["remasking"]
        tokens, draft = list(initial), list(initial)
        scores: List[float] = []
        total: Optional[List[List[float]]] = None
        passes = rejections = 0
        for step in range(self.options["passes"]):
            shown = tokens
            logits, approval = self.look(source, shown)
            passes += 1
            if total is None:
                total = logits
            else:
                total = [[a + b for a, b in zip(x, y)] for x, y in zip(total, logits)]
            predicted, scores = [], []
            for row in logits:
                best = argmax(row)
                predicted.append(best)
                scores.append(log_softmax(row)[best])
            replacement = {
                "initial": initial,
                "previous": shown,
                "logits-sum": [argmax(row) for row in total],
            }[remasking]
            rejected = set(self.reject(predicted, scores, approval, step))
            if self.options["remask_stutter"]:
                rejected |= set(stutters(predicted))
            rejections += len(rejected)
            tokens = [replacement[i] if i in rejected else t for i, t in enumerate(predicted)]
            same, draft = predicted == draft, predicted
            if same and self.options["early_stop"]:
                break
        final, dropped = list(draft), set()
        if self.options["remask_stutter"]:
            for i in stutters(draft):
                final[i] = replacement[i]
                if final[i] == initial[i]:
                    dropped.add(i)
        kept = [i for i in range(len(final)) if i not in dropped]
        return {
            "tokens": [final[i] for i in kept],
            "scores": [scores[i] for i in kept],
            "score": sum(scores[i] for i in kept) / max(len(kept), 1),
            "passes": passes,
            "rejections": rejections,
            "dropped": len(dropped),
        }

    def translate(self, words: List[int]) -> Dict[str, Any]:
        """The best candidate of a sentence, and the number of passes over all of them."""
        source = [*words, self.eos]
        chains = [
            self.refine(source, self.start(words, count, number))
            for number, count in enumerate(self.candidate_lengths(source))
        ]
        best = dict(max(chains, key=lambda chain: chain["score"]))
        best["passes"] = max(chain["passes"] for chain in chains)
        return best
