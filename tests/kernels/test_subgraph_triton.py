from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.kernels import subgraph
from handful.kernels.dispatch import use
from handful.kernels.reach import reach

subgraph_triton = pytest.importorskip("handful.kernels.subgraph_triton")

pytestmark = pytest.mark.triton
DEGREES = st.lists(st.sampled_from([0, 1, 3, 17, 60]), min_size=1, max_size=12)


def csr_of(degrees: list[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = [np.sort(rng.integers(0, len(degrees), degree)) for degree in degrees]
    return np.concatenate([[0], np.cumsum(degrees)]), np.concatenate(rows).astype(np.int32)


def same(ours: tuple[torch.Tensor, ...], theirs: tuple[np.ndarray, ...]) -> None:
    for mine, expected in zip(ours, theirs, strict=True):
        assert np.array_equal(mine.numpy(), expected)
        assert mine.numpy().dtype == expected.dtype


@settings(max_examples=25)
@given(
    degrees=DEGREES, m=st.integers(1, 4), with_edges=st.booleans(),
    kind=st.sampled_from([np.uint8, np.uint16, np.int32]), chunk=st.sampled_from([16, 1024]), seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_parts_are_those_of_the_cpu(
    degrees: list[int], m: int, with_edges: bool, kind: type, chunk: int, seed: int
) -> None:
    """Byte for byte; some nodes are in no part, some rows are longer than a piece."""
    rng = np.random.default_rng(seed)
    indptr, indices = csr_of(degrees, rng)
    part = rng.integers(0, m + 1, len(degrees)).astype(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subgraph_triton, "CHUNK", chunk)
        tensors = (torch.from_numpy(t) for t in (indptr, indices, part))
        mine = list(subgraph_triton.parts(*tensors, m, with_edges))
    places = np.arange(len(indices)) if with_edges else None
    theirs = list(subgraph.parts(indptr, indices, part, m, places))
    assert len(mine) == len(theirs) == m
    for ours, expected in zip(mine, theirs, strict=True):
        same(ours[: 3 + with_edges], expected[: 3 + with_edges])


@settings(max_examples=15)
@given(degrees=DEGREES, with_edges=st.booleans(), chunk=st.sampled_from([16, 1024]), seed=st.integers(0, 1000))
def test_some_nodes_induce_what_they_do_on_the_cpu(degrees: list[int], with_edges: bool, chunk: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    indptr, indices = csr_of(degrees, rng)
    nodes = rng.permutation(len(degrees))[: rng.integers(0, len(degrees) + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subgraph_triton, "CHUNK", chunk)
        mine = subgraph_triton.induced(*(torch.from_numpy(t) for t in (indptr, indices, nodes)), with_edges)
    same(mine, subgraph.induced(indptr, indices, nodes, with_edges))


@settings(max_examples=15)
@given(
    n=st.integers(1, 20), edges=st.sampled_from([0, 5, 30, 90]), hops=st.integers(0, 3),
    chunk=st.sampled_from([16, 1024]), seed=st.integers(0, 999),
)  # fmt: skip
def test_reach_equals_the_numba_twin(n: int, edges: int, hops: int, chunk: int, seed: int) -> None:
    """Half of the edges lead to one node: its row is longer than a piece."""
    gen = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, n, (2, edges), generator=gen)
    pairs[1, : edges // 2] = 0
    graph = Graph.from_edge_index(pairs, n)
    targets = torch.randint(0, n, (2,), generator=gen)
    with pytest.MonkeyPatch.context() as patch, use("triton"):
        patch.setattr(subgraph_triton, "CHUNK", chunk)
        mine = reach(graph.indptr, graph.indices, targets, hops)
    theirs = reach(graph.indptr, graph.indices, targets, hops)
    assert torch.equal(mine.order, theirs.order)
    assert torch.equal(mine.indptr, theirs.indptr)
    assert (mine.counts, mine.edges) == (theirs.counts, theirs.edges)
