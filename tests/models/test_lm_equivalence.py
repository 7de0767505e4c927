"""u-PMLM's loss is the permutation language model's, up to a constant (spec 7.1)."""

from itertools import combinations, permutations
from math import factorial
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_gmlm.criterions.gmlm_loss import GMLMLoss, GMLMLossConfig
from fairseq_gmlm.masking import Corruption
from fairseq_gmlm.models.gmlm_lm import GMLMLanguageModel
from fairseq_gmlm.models.lm_config import GMLMLanguageModelConfig
from fairseq_gmlm.vocabulary import Vocabulary, add_symbols

BOS, PAD, EOS = 0, 1, 2


def task_and_model():
    symbols = Dictionary()
    for i in range(6):
        symbols.add_symbol(f"w{i}")
    add_symbols(symbols)
    task = SimpleNamespace(
        source_dictionary=symbols,
        target_dictionary=symbols,
        vocabulary=Vocabulary.of(symbols),
        corrupt=None,
        cfg=SimpleNamespace(rejecter="passthrough", remask_stutter=False),
    )
    torch.manual_seed(1)
    cfg = GMLMLanguageModelConfig(
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=32,
        encoder_layers=2,
        encoder_attention_heads=2,
        max_positions=10,
    )
    model = GMLMLanguageModel.build_model(cfg, task).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return task, model


def text(length):
    words = [4 + (3 * i * i + i) % 6 for i in range(length)]
    return torch.tensor([[BOS, *words, EOS]])


def subsets(length):
    for size in range(1, length + 1):
        yield from combinations(range(length), size)


def log_probs(model, task, target):
    """{(hidden set, position): log p}, one pass for each set."""
    length = target.size(1) - 2
    table = {}
    for hidden in subsets(length):
        shown = target.clone()
        shown[0, [1 + i for i in hidden]] = task.vocabulary.mask
        scores = model(shown)[0].log_softmax(-1)
        for i in hidden:
            table[hidden, i] = float(scores[0, 1 + i, target[0, 1 + i]])
    return table


def permutation_loss(table, length):
    """-(1/N!) sum over orders of log p, and the weight that each (set, position) gets in it."""
    weights = dict.fromkeys(table, 0.0)
    for order in permutations(range(length)):
        for step, position in enumerate(order):
            weights[tuple(sorted(order[step:])), position] += 1 / factorial(length)
    return -sum(weights[key] * value for key, value in table.items()), weights


def criterion_loss(task, model, targets, hidden, normalization):
    """loss / sample size of one batch, as the trainer computes it."""
    loss = GMLMLoss(GMLMLossConfig(loss_normalization=normalization), task)
    masked = torch.zeros_like(targets, dtype=torch.bool)
    for row, places in enumerate(hidden):
        masked[row, [1 + i for i in places]] = True
    shown = targets.masked_fill(masked, task.vocabulary.mask)
    sample = {
        "target": targets,
        "ntokens": 0,
        "net_input": {"src_tokens": targets, "src_lengths": None},
        "corruption": Corruption(shown, masked, masked),
    }
    value, size, _ = loss(model, sample)
    return float(value), float(size)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_the_ratio_to_the_permutation_loss_is_one_over_n_plus_one(length):
    task, model = task_and_model()
    target = text(length)
    table = log_probs(model, task, target)
    expected, _ = permutation_loss(table, length)
    # U[0, 1] ratio: |M| uniform on 0 .. N, uniform given its size; M = {} adds nothing.
    total = 0.0
    for hidden in subsets(length):
        size = len(hidden)
        prior = factorial(size) * factorial(length - size) / factorial(length + 1)
        value, count = criterion_loss(task, model, target, [hidden], "per-sentence")
        total += prior * value / count
    assert abs(total / expected - 1 / (length + 1)) < 1e-6


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_every_pair_of_position_and_visible_set_has_that_weight(length):
    task, model = task_and_model()
    table = log_probs(model, task, text(length))
    _, weights = permutation_loss(table, length)
    for (hidden, _), weight in weights.items():
        size = len(hidden)
        prior = factorial(size) * factorial(length - size) / factorial(length + 1)
        assert abs(prior / size / weight - 1 / (length + 1)) < 1e-12


def test_sizes_from_one_to_n_give_one_over_n():
    """What the task draws with --mask-prior uniform --mask-count exact."""
    length = 5
    task, model = task_and_model()
    target = text(length)
    expected, _ = permutation_loss(log_probs(model, task, target), length)
    total = 0.0
    for hidden in subsets(length):
        size = len(hidden)
        prior = factorial(size) * factorial(length - size) / factorial(length) / length
        value, count = criterion_loss(task, model, target, [hidden], "per-sentence")
        total += prior * value / count
    assert abs(total / expected - 1 / length) < 1e-6


def expected_over_batches(task, model, normalization):
    """E over masks of both texts of the loss of a batch of two, and of their own losses."""
    targets = torch.tensor([[BOS, 4, 5, 6, EOS], [BOS, 7, 8, 9, EOS]])
    length, total = 3, 0.0
    for first in subsets(length):
        for second in subsets(length):
            prior = 1.0
            for hidden in (first, second):
                size = len(hidden)
                prior *= factorial(size) * factorial(length - size) / factorial(length) / length
            value, count = criterion_loss(task, model, targets, [first, second], normalization)
            total += prior * value / count
    losses = [
        permutation_loss(log_probs(model, task, target[None]), length)[0] for target in targets
    ]
    return total, sum(losses) / 2 / length


def test_batch_token_normalisation_breaks_the_equivalence():
    task, model = task_and_model()
    found, expected = expected_over_batches(task, model, "per-sentence")
    assert abs(found / expected - 1) < 1e-6
    found, expected = expected_over_batches(task, model, "tokens")
    assert abs(found / expected - 1) > 1e-3
