"""Random models for hypothesis, as plain lists."""

from hypothesis import strategies as st

WEIGHT = st.floats(-1.0, 1.0, allow_nan=False)


@st.composite
def ising_tables(draw, low=2, high=4):
    """(couplings, fields) of a random Ising model."""
    n = draw(st.integers(low, high))
    couplings = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            couplings[i][j] = couplings[j][i] = draw(WEIGHT)
    return couplings, [draw(WEIGHT) for _ in range(n)]
