"""Independent references: loops and definitions, with nothing taken from the library."""

import itertools
import math


def ising_law(couplings, fields):
    """Probabilities of all states in lexicographic order of (-1, +1)."""
    n = len(fields)
    weights = []
    for x in itertools.product([-1, 1], repeat=n):
        energy = sum(fields[i] * x[i] for i in range(n))
        energy += sum(couplings[i][j] * x[i] * x[j] for i in range(n) for j in range(i + 1, n))
        weights.append(math.exp(energy))
    total = sum(weights)
    return [w / total for w in weights]


def states(n, symbols=2):
    return list(itertools.product(range(symbols), repeat=n))


def conditional(law, n, block, x, symbols=2):
    """{filling: probability} of the block given the rest of x."""
    found = {}
    for p, y in zip(law, states(n, symbols)):
        if all(y[i] == x[i] for i in range(n) if i not in block):
            found[tuple(y[i] for i in block)] = p
    total = sum(found.values())
    return {filling: p / total for filling, p in found.items()}


def margin(table, position, symbol):
    return sum(p for filling, p in table.items() if filling[position] == symbol)


def kernel(law, n, blocks, product):
    """Transition matrix of "uniform block, then resample it jointly or site by site"."""
    every = states(n)
    number = {x: i for i, x in enumerate(every)}
    matrix = [[0.0] * len(every) for _ in every]
    for block in blocks:
        for x in every:
            table = conditional(law, n, block, x)
            for filling in itertools.product(range(2), repeat=len(block)):
                if product:
                    p = math.prod(margin(table, t, a) for t, a in enumerate(filling))
                else:
                    p = table[filling]
                y = list(x)
                for site, symbol in zip(block, filling):
                    y[site] = symbol
                matrix[number[x]][number[tuple(y)]] += p / len(blocks)
    return matrix


def loss(couplings, fields, pairs, product):
    """Mean pseudolikelihood loss over (state, block) pairs."""
    n = len(fields)
    law = ising_law(couplings, fields)
    total = 0.0
    for x, block in pairs:
        table = conditional(law, n, block, x)
        if product:
            total -= sum(math.log(margin(table, t, x[i])) for t, i in enumerate(block))
        else:
            total -= math.log(table[tuple(x[i] for i in block)])
    return total / len(pairs)


def kl(first, second):
    return sum(a * math.log(a / b) for a, b in zip(first, second) if a > 0)
