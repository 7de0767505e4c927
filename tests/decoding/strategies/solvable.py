"""A joint law small enough to enumerate, in place of the network, and what decoding does to it."""

from itertools import product

import torch

from fairseq_gmlm.counter_rng import CounterRNG
from fairseq_gmlm.decoding.chain import run_chain
from fairseq_gmlm.decoding.choice import Choice
from fairseq_gmlm.decoding.state import Prediction, initial_state

BOS, PAD, EOS, MASK, FIRST = 0, 1, 2, 3, 4


def markov_joint(sites=4, symbols=3, seed=0, sharpness=2.0):
    """Law (symbols,) * sites of a Markov chain with random, strong transitions, float64."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.double)  # noqa: E731
    start = draw(symbols).softmax(0)
    steps = [(sharpness * 2 * draw(symbols, symbols)).softmax(1) for _ in range(sites - 1)]
    law = start
    for step in steps:
        law = law[..., None] * step
    return law


def ising_strip(rows=2, columns=3, coupling=0.7, field=0.3):
    """Law (2,) * (rows * columns) of an Ising model on a strip, float64."""
    sites = rows * columns
    law = torch.zeros((2,) * sites, dtype=torch.double)
    for state in product((0, 1), repeat=sites):
        spin = [2 * s - 1 for s in state]
        energy = field * sum(spin)
        for i in range(sites):
            if (i + 1) % columns:
                energy += coupling * spin[i] * spin[i + 1]
            if i + columns < sites:
                energy += coupling * spin[i] * spin[i + columns]
        law[state] = energy
    return law.exp() / law.exp().sum()


def all_states(law):
    """Every state, int64 (S, N)."""
    return torch.tensor(list(product(range(law.size(0)), repeat=law.dim())))


def conditional_law(law, hidden, state, site):
    """p(symbol of ``site`` | symbols of ``state`` outside ``hidden``), by plain summation."""
    others = [i for i in hidden if i != site]
    index = tuple(slice(None) if i in hidden else state[i] for i in range(law.dim()))
    table = law[index]
    kept = [i for i in range(law.dim()) if i in hidden]
    table = table.sum([kept.index(i) for i in others]) if others else table
    return table / table.sum()


class Exact:
    """Exact conditionals of a joint law; every row is told which state to choose, or samples."""

    def __init__(self, law, told=None, choice=None):
        self.law, self.told, self.choice = law, told, choice
        self.states = all_states(law)
        self.weights = law.reshape(-1)

    def select(self, sentences):
        told = None if self.told is None else self.told[sentences]
        return Exact(self.law, told, self.choice)

    def __call__(self, state, where, step):
        seen = state.tokens[:, 1:-1]
        visible = seen >= FIRST
        fits = ((seen[:, None] - FIRST == self.states[None]) | ~visible[:, None]).all(-1)
        weight = fits * self.weights  # (R, S)
        one_hot = torch.nn.functional.one_hot(self.states, self.law.size(0)).double()
        probs = torch.einsum("rs,sna->rna", weight, one_hot)
        logits = (probs / probs.sum(-1, keepdim=True)).log()
        best = logits.max(-1).values
        if self.told is not None:
            tokens = self.told
            scores = logits.gather(-1, tokens[..., None]).squeeze(-1)
        else:
            uniform = state.rng.per_position(1000 + step, state.place)[:, 1:-1]
            tokens, scores, best = (
                v.view(seen.shape)
                for v in self.choice.pick(logits.flatten(0, 1), uniform.flatten())
            )
        pad = lambda x, value: torch.nn.functional.pad(x, (1, 1), value=value)  # noqa: E731
        return Prediction(pad(tokens + FIRST, 0), pad(scores, 0.0), pad(best, 0.0))


def canvas(rows, sites, seed=0):
    """Masked rows BOS mask ... mask EOS about to be filled, with float64 scores."""
    tokens = torch.full((rows, sites + 2), MASK)
    tokens[:, 0], tokens[:, -1] = BOS, EOS
    free = tokens == MASK
    place = (torch.arange(sites + 2)[None] - 1).clamp(min=0).expand_as(tokens)
    state = initial_state(tokens, free, place, CounterRNG(seed, torch.arange(rows)))
    state.scores = state.scores.double()
    return state


def output_law(law, strategy, passes, early_stop=True, seed=0):
    """Exact law (S,) of what the chain puts out, through the chain itself.

    One row for each state, told to choose that state wherever it is asked: the product of the
    probabilities of its choices is the probability that the chain ends there. Rows share one key,
    so that all of them draw the same order.
    """
    states = all_states(law)
    state = canvas(len(states), law.dim())
    state.rng = CounterRNG(seed, torch.zeros(len(states), dtype=torch.long))
    result = run_chain(Exact(law, told=states), state, strategy, passes, early_stop=early_stop)
    assert torch.equal(result.tokens[:, 1:-1] - FIRST, states)
    return result.scores.sum(1).exp()


def sampled_law(law, strategy, passes, count, seed=0, state=None):
    """Frequencies (S,) of ``count`` sampled chains."""
    if state is None:
        state = canvas(count, law.dim(), seed)
    choice = Choice(temperature=1.0)
    result = run_chain(Exact(law, choice=choice), state, strategy, passes, early_stop=False)
    symbols = result.tokens[:, 1:-1] - FIRST
    assert (symbols >= 0).all()
    number = torch.zeros(count, dtype=torch.long)
    for site in range(law.dim()):
        number = number * law.size(0) + symbols[:, site]
    return torch.bincount(number, minlength=law.numel()).double() / count


def total_variation(first, second):
    return float((first.reshape(-1) - second.reshape(-1)).abs().sum() / 2)
