"""Counts and ranks of parts in small types, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels.deal import counts, of_rank


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 6), st.sampled_from([np.uint8, np.uint16, np.int32]))
def test_counts_are_those_of_numpy(part: list[int], m: int, dtype: type) -> None:
    expected = np.bincount(np.array(part, np.int64), minlength=7)[:m]
    np.testing.assert_array_equal(counts(np.array(part, dtype), m), expected)


def test_counts_of_many_are_shared_by_threads() -> None:
    part = np.random.default_rng(0).integers(0, 5, 300_001).astype(np.uint8)
    np.testing.assert_array_equal(counts(part, 5), np.bincount(part))


@pytest.mark.parametrize("m", [1, 3, 300])
def test_nodes_of_a_rank_are_found_in_the_order_asked(m: int) -> None:
    rng = np.random.default_rng(m)
    part = rng.integers(0, m, 2000).astype(np.uint16)
    by_part = [np.flatnonzero(part == p) for p in range(m)]
    ranks = [rng.choice(len(nodes), rng.integers(0, len(nodes) + 1), replace=False) for nodes in by_part]
    for found, nodes, asked in zip(of_rank(part, ranks), by_part, ranks, strict=True):
        np.testing.assert_array_equal(found, nodes[asked])
