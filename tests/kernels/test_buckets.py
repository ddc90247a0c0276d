from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels.buckets import imbalance, in_buckets, sorted_rows
from handful.kernels.threads import get_threads, set_threads


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = get_threads()
    set_threads(count)
    try:
        yield
    finally:
        set_threads(before)


@given(
    st.integers(1, 40), st.integers(0, 60), st.integers(0, 6), st.booleans(), st.sampled_from([np.int32, np.int64]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=80)
def test_every_record_in_its_bucket_in_order(
    n: int, edges: int, shift: int, both: bool, dtype: type, seed: int
) -> None:
    v, u = np.random.default_rng(seed).integers(0, n, (2, edges)).astype(dtype)
    buckets = ((n - 1) >> shift) + 1
    records, starts, bad = in_buckets(v, u, n, 0, shift, buckets, both)
    assert bad == -1
    assert records.dtype == dtype
    pairs = [list(pair) for pair in zip(v.tolist(), u.tolist(), strict=True)]
    if both:
        pairs = [pair for a, b in pairs for pair in ([a, b], [b, a])]
    for k, (lo, hi) in enumerate(pairwise(starts)):
        assert records[lo:hi].tolist() == [pair for pair in pairs if pair[0] >> shift == k]


def test_the_order_is_that_of_the_edges_whatever_the_threads() -> None:
    v, u = np.random.default_rng(0).integers(0, 1000, (2, 50_000)).astype(np.int32)
    with threads(1):
        one = in_buckets(v, u, 1000, 0, 5, 32, True)
    with threads(3):
        three = in_buckets(v, u, 1000, 0, 5, 32, True)
    assert np.array_equal(one[0], three[0])
    assert np.array_equal(one[1], three[1])


@pytest.mark.parametrize("bad", [-1, 10])
@pytest.mark.parametrize("row", [0, 1])
def test_an_end_that_is_no_node_is_found_before_anything_is_written(bad: int, row: int) -> None:
    edges = np.zeros((2, 30_000), np.int32)
    edges[row, [7, 20_007]] = bad
    with threads(3):
        records, _, at = in_buckets(*edges, 10, 0, 2, 3, False)
    assert at == 7
    assert len(records) == 0


@given(
    st.integers(1, 12), st.integers(0, 60), st.integers(0, 9), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1)
)
@settings(max_examples=60)
def test_rows_with_and_without_loops_and_repeated_sources(
    rows: int, count: int, base: int, loops: bool, repeated: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    records = np.stack([base + rng.integers(0, rows, count), rng.integers(0, 20, count)], 1).astype(np.int32)
    kept, sources = sorted_rows(records, base, rows, loops, repeated)
    expected = []
    for k in range(base, base + rows):
        row = [int(u) for v, u in records if v == k and (loops or u != k)]
        expected.append(sorted(row if repeated else set(row)))
    assert kept.tolist() == [len(row) for row in expected]
    assert sources.tolist() == [u for row in expected for u in row]


@given(st.integers(1, 6), st.integers(0, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_hashes_balance_if_and_only_if_edges_do(n: int, edges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, u = rng.integers(0, n, (2, edges))
    if seed % 2:
        v, u = np.concatenate([v, u]), np.concatenate([u, v])
    there, back = (sorted(zip(a.tolist(), b.tolist(), strict=True)) for a, b in ((v, u), (u, v)))
    assert (imbalance(v, u, 3) == 0) == (there == back)
    parts = imbalance(v[:3], u[:3], 5) + imbalance(v[3:], u[3:], 5)
    assert imbalance(v, u, 5) == parts % 2**64
