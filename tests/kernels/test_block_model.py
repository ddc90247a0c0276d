from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from handful.kernels.block_model import draw_ends, noisy_means, simple_rows
from handful.kernels.threads import get_threads, set_threads

KEY = np.uint64(7)


@pytest.fixture(params=[1, 3])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = get_threads()
    set_threads(request.param)
    yield
    set_threads(before)


@pytest.mark.usefixtures("_threads")
def test_ends_have_the_law_of_their_class() -> None:
    """Three classes of 10, 20 and 30 places; a rank is drawn by the inverse of its class's distribution function."""
    pairs, homophily, power = 200_000, 0.6, 0.4
    start = np.array([0, 10, 30, 60])
    offset = np.array([0.5, 1.0, 2.0])
    low, high = offset**power, (np.diff(start) + offset) ** power
    first = np.zeros(61, np.int64)
    first[16:] = pairs  # all of them at place 15, which is of class 1
    member = np.random.default_rng(0).permutation(60).astype(np.int32)
    ends = draw_ends(first, start, member, offset, power, homophily, KEY)
    assert ends.dtype == member.dtype
    expected = np.empty(60)
    for c, share in enumerate([0.2, 0.6, 0.2]):
        edges = (np.arange(start[c + 1] - start[c] + 1) + offset[c]) ** power
        expected[member[start[c] : start[c + 1]]] = share * np.diff(edges) / (high[c] - low[c])
    assert stats.chisquare(np.bincount(ends, minlength=60), expected * pairs).pvalue > 1e-4


@given(st.integers(1, 10), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_rows_against_a_set_of_pairs(n: int, pairs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    member = rng.permutation(n).astype(np.int32)
    first = np.sort(np.concatenate([[0, pairs], rng.integers(0, pairs + 1, n - 1)]))
    other = rng.integers(0, n, pairs).astype(np.int32)
    near: list[set[int]] = [set() for _ in range(n)]
    for place in range(n):
        for e in range(first[place], first[place + 1]):
            u, v = int(member[place]), int(other[e])
            if u != v:
                near[u].add(v)
                near[v].add(u)
    indptr, indices = simple_rows(first, member, other)
    assert [indices[a:b].tolist() for a, b in pairwise(indptr)] == [sorted(s) for s in near]


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("columns", [1, 4, 5])
def test_noise_is_standard_normal_and_belongs_to_the_node(columns: int) -> None:
    n = 40_000
    y = np.random.default_rng(1).integers(0, 3, n)
    means = np.arange(3 * columns, dtype=np.float32).reshape(3, columns)
    x = noisy_means(y, means, KEY)
    noise = x.astype(float) - means[y]
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.atleast_2d(np.cov(noise.T)) - np.eye(columns)).max() < 0.03
    assert np.array_equal(x[100:], noisy_means(y[100:], means, KEY, begin=100))
