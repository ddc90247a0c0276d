"""The one pass over an edge list against a loop over parts."""

from __future__ import annotations

import numpy as np
import pytest

from handful.kernels.inside import inside, renumbered


@pytest.mark.parametrize(("edges", "threads"), [(0, 1), (300, 1), (50_000, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_edges_inside_a_part_in_their_order(edges: int, threads: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    n, k, m = 40, 30, 4
    source, target = rng.integers(0, n, edges).astype(dtype), rng.integers(0, k, edges).astype(dtype)
    of_source, of_target = (rng.integers(0, m + 1, size).astype(np.uint8) for size in (n, k))
    kept, first = inside(source, target, of_source, of_target, m, threads)
    number = rng.permutation(n)
    for part in range(m):
        wanted = np.flatnonzero((of_source[source] == part) & (of_target[target] == part))
        own = kept[first[part] : first[part + 1]]
        assert np.array_equal(own, wanted)
        ends = renumbered(own, source, target, number, np.arange(k), threads)
        assert ends.dtype == dtype
        assert np.array_equal(ends, np.stack([number[source[wanted]], target[wanted]]))
    assert first[-1] == len(kept)
