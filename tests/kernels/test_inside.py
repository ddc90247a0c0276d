"""The one pass over an edge list against a loop over parts."""

from __future__ import annotations

import numpy as np
import pytest

from handful.kernels.inside import inside


@pytest.mark.parametrize(("edges", "threads"), [(0, 1), (300, 1), (50_000, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("m", "with_places"), [(3, False), (4, False), (4, True)])
def test_edges_inside_a_part_in_their_order(edges: int, threads: int, dtype: type, m: int, with_places: bool) -> None:
    rng = np.random.default_rng(0)
    n, k = 40, 30
    source, target = rng.integers(0, n, edges).astype(dtype), rng.integers(0, k, edges).astype(dtype)
    of_source, of_target = (rng.integers(0, m + 1, size).astype(np.uint8) for size in (n, k))
    number = rng.permutation(n)
    found = inside(source, target, of_source, of_target, m, with_places, threads)
    assert len(found) == m
    for part, own in enumerate(found):
        wanted = np.flatnonzero((of_source[source] == part) & (of_target[target] == part))
        assert (own.places is None) == (m == 4 and not with_places)
        assert own.places is None or np.array_equal(own.places, wanted)
        ends = own.numbered(source, target, number, np.arange(k), threads)
        assert ends.dtype == dtype
        assert np.array_equal(ends, np.stack([number[source[wanted]], target[wanted]]))
