from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels import csr
from handful.kernels.homophily import class_edges, same_label_edges


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_against_a_count_over_the_edge_list(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = rng.integers(0, n, (2, m))
    y = rng.integers(-1, 3, n)
    indptr, indices, _ = csr.coo_to_csr(rows, cols, n, n)
    known = (y[rows] >= 0) & (y[cols] >= 0)
    assert same_label_edges(indptr, indices, y) == ((known & (y[rows] == y[cols])).sum(), known.sum())
    inside, ends = np.zeros(3, np.int64), np.zeros(3, np.int64)
    class_edges(indptr, indices, y, inside, ends)
    assert ends.tolist() == [(known & (y[rows] == k)).sum() for k in range(3)]
    assert inside.tolist() == [(known & (y[rows] == k) & (y[cols] == k)).sum() for k in range(3)]
