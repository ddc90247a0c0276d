from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.kernels.dispatch import use
from handful.kernels.reach import reach

reach_triton = pytest.importorskip("handful.kernels.reach_triton")

pytestmark = pytest.mark.triton


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 20), edges=st.sampled_from([0, 5, 30, 90]), hops=st.integers(0, 3),
    chunk=st.sampled_from([16, 1024]), seed=st.integers(0, 999),
)  # fmt: skip
def test_equals_the_numba_twin(n: int, edges: int, hops: int, chunk: int, seed: int) -> None:
    """Half of the edges lead to one node: its row is longer than a piece."""
    gen = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, n, (2, edges), generator=gen)
    pairs[1, : edges // 2] = 0
    graph = Graph.from_edge_index(pairs, n)
    targets = torch.randint(0, n, (2,), generator=gen)
    with pytest.MonkeyPatch.context() as patch, use("triton"):
        patch.setattr(reach_triton, "CHUNK", chunk)
        mine = reach(graph.indptr, graph.indices, targets, hops)
    theirs = reach(graph.indptr, graph.indices, targets, hops)
    assert torch.equal(mine.order, theirs.order)
    assert torch.equal(mine.indptr, theirs.indptr)
    assert (mine.counts, mine.edges) == (theirs.counts, theirs.edges)
