"""Complexity of data whose entropies are known."""

import math
import random

import pytest
import torch

from fairseq_gmlm.analysis.alignment import Lexicon
from fairseq_gmlm.analysis.complexity import conditional_entropy, entropies, measure
from fairseq_gmlm.analysis.words import Numbers, ParallelWords


def parallel(pairs: list) -> ParallelWords:
    """Pairs of words, numbered."""
    source, target = Numbers(), Numbers()
    made = [(source.add(left), target.add(right)) for left, right in pairs]
    return ParallelWords(made, source, target, sum(len(t) for _, t in made), len(made))


def test_entropies_from_counts_by_hand() -> None:
    # Word 1 becomes 1 or 2, equally often (8 links); word 2 always 1 (2 links); NULL is left out.
    keys, counts = [0, 3 + 1, 3 + 2, 6 + 1], [50.0, 4.0, 4.0, 2.0]
    counts = torch.tensor(counts, dtype=torch.float64)
    by_type, by_token = entropies(Lexicon(torch.tensor(keys), counts, counts, 3))
    assert (by_type, by_token) == pytest.approx((0.5, 0.8))


def test_conditional_entropy_by_hand() -> None:
    words = torch.tensor([5, 5, 5, 5, 7, 7])
    values = torch.tensor([0, 1, 1, 1, 2, 2])
    expected = 4 / 6 * -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert conditional_entropy(words, values) == pytest.approx(expected)


def test_one_to_one_data_have_no_entropy_and_two_modes_have_one_bit() -> None:
    words = "abcdefgh"
    sentences = [[words[(i + k) % 8] for k in range(1 + i % 4)] for i in range(64)]
    plain = measure(parallel([(s, [w.upper() for w in s]) for s in sentences]))
    # In every other round of the alphabet all words go to the other translation.
    modes = [
        (s, [w.upper() + ("2" if (i // 8) % 2 else "1") for w in s])
        for i, s in enumerate(sentences)
    ]
    mixed = measure(parallel(modes))
    assert plain.entropy_by_token < 0.1
    assert mixed.entropy_by_token == pytest.approx(1.0, abs=0.15)
    assert mixed.target_types == 2 * plain.target_types == 16
    assert plain.fertility == pytest.approx(1.0, abs=0.05)
    assert plain.fertility_entropy == plain.silent == plain.unexplained == plain.displacement == 0
    assert plain.length_ratio == 1 and plain.length_ratio_deviation == 0
    assert plain.source_words == plain.target_words == sum(map(len, sentences))


def test_fertility() -> None:
    """``a`` gives two words, all others one."""
    rng = random.Random(2)
    sentences = [[rng.choice("abcdefgh") for _ in range(rng.randrange(2, 6))] for _ in range(200)]
    pairs = [(s, [t for w in s for t in (["A1", "A2"] if w == "a" else [w])]) for s in sentences]
    found = measure(parallel(pairs))
    tokens = [w for s in sentences for w in s]
    twos = tokens.count("a") / len(tokens)
    assert found.fertility == pytest.approx(1 + twos, abs=0.06)
    assert 0.6 < found.fertility_deviation / math.sqrt(twos * (1 - twos)) < 1.1  # links are soft
    assert found.fertility_entropy < 0.25  # nearly known from the word
    assert found.length_ratio > 1 and found.displacement > 0


def test_words_without_a_partner() -> None:
    """``z`` is never translated, ``Q`` comes from nowhere, each at any place."""
    rng = random.Random(1)
    sentences = [[rng.choice("abcdefgh") for _ in range(rng.randrange(3, 8))] for _ in range(300)]
    plain, pairs = [], []
    for number, words in enumerate(sentences):
        source, target = list(words), [word.upper() for word in words]
        plain.append((list(source), list(target)))
        side, stray = ((source, "z"), (target, "Q"))[number % 2]
        side.insert(rng.randrange(len(side) + 1), stray)
        pairs.append((source, target))
    found, without = measure(parallel(pairs)), measure(parallel(plain))
    assert without.silent == without.unexplained == 0
    tokens = sum(len(source) for source, _ in pairs)
    assert found.silent == pytest.approx(150 / tokens, rel=0.5)
    assert found.unexplained == pytest.approx(150 / found.target_words, rel=0.5)
