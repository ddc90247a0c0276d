"""Graphs to try samplers on: directed or not, weighted or not, with loops, repeats, hubs, isolated nodes, no edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from handful import Graph


@st.composite
def any_graph(draw: st.DrawFn, max_nodes: int = 12) -> Graph:
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * n))
    if draw(st.booleans()):  # a hub that everyone points to
        hub = draw(node)
        pairs += [(v, hub) for v in range(n)]
    edges = np.array(pairs, np.int64).reshape(-1, 2).T
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    train = np.zeros(n, bool)
    train[draw(st.lists(node, min_size=1, max_size=n))] = True
    fields = {"x": rng.normal(size=(n, 3)).astype(np.float32), "y": rng.integers(0, 3, n), "train_mask": train}
    if draw(st.booleans()):
        fields["edge_weight"] = rng.uniform(0.0, 2.0, edges.shape[1]).astype(np.float32)
    graph = Graph.from_edge_index(edges, n, num_classes=3, **fields)
    return graph.to_undirected() if draw(st.booleans()) else graph


@pytest.fixture(scope="session")
def graphs() -> st.SearchStrategy[Graph]:
    return any_graph()


@pytest.fixture(scope="session")
def medium() -> Graph:
    """300 nodes in five groups, undirected, degrees from 0 to about 60."""
    rng = np.random.default_rng(7)
    n = 300
    group = rng.integers(0, 5, n)
    appeal = rng.pareto(1.5, n) + 0.1
    edges = rng.choice(n, (2, 2500), p=appeal / appeal.sum())
    edges = edges[:, (group[edges[0]] == group[edges[1]]) | (rng.random(2500) < 0.15)]
    graph = Graph.from_edge_index(
        edges,
        n,
        x=rng.normal(size=(n, 8)).astype(np.float32),
        y=group,
        train_mask=torch.from_numpy(rng.random(n) < 0.5),
    )
    return graph.to_undirected().without_loops()
