"""Graphs as PyG has them, and what a batch of one must hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import subgraph


def make_data(n: int = 40, edges: int = 300, seed: int = 0) -> Data:
    """Attributes of every kind that a ``Data`` can carry."""
    rng = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(n, 5, generator=rng),
        y=torch.randint(0, 3, (n,), generator=rng),
        train_mask=torch.rand(n, generator=rng) < 0.5,
        edge_index=torch.randint(0, n, (2, edges), generator=rng),
        edge_attr=torch.randn(edges, 2, generator=rng),
        edge_weight=torch.rand(edges, generator=rng),
        names=[f"node {i}" for i in range(n)],
        table=np.arange(2 * n).reshape(n, 2),
        graph_level=torch.tensor([1.0, 2.0, 3.0]),
        title="a graph",
    )


@st.composite
def any_data(draw: st.DrawFn) -> Data:
    """Directed graphs with self-loops, repeated edges and isolated nodes; weighted or not."""
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    edges = torch.tensor(draw(st.lists(st.tuples(node, node), max_size=40)), dtype=torch.int64).reshape(-1, 2).T
    data = Data(edge_index=edges, num_nodes=n)
    if draw(st.booleans()):
        data.edge_weight = torch.arange(edges.shape[1])
    return data


def edges_of(batch: Any, *attributes: str) -> list[tuple[Any, ...]]:
    """The edges with their attributes in an order that does not depend on how they are stored."""
    columns = [batch.edge_index.T.tolist(), *(batch[key].tolist() for key in attributes)]
    return sorted(zip(*columns, strict=True))


def assert_induced(data: Data, batch: Data) -> None:
    """``batch`` has the edges, and their weights, that PyG's ``subgraph`` finds among its nodes."""
    numbers = torch.arange(data.num_edges)
    edges, kept = subgraph(batch.n_id, data.edge_index, numbers, relabel_nodes=True, num_nodes=data.num_nodes)
    attributes = ("edge_weight",) if "edge_weight" in data else ()
    weight = data.edge_weight[kept] if attributes else kept
    assert edges_of(batch, *attributes) == edges_of(Data(edge_index=edges, edge_weight=weight), *attributes)
    assert batch.num_nodes == len(batch.n_id)


def assert_carried(data: Data, batch: Data) -> None:
    """``batch`` has every attribute of ``make_data`` for its nodes and edges, and nothing is lost."""
    batch.validate()
    assert {*data.keys(), "n_id", "e_id"} <= set(batch.keys())
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    for key in ("x", "y", "train_mask"):
        assert torch.equal(batch[key], data[key][batch.n_id])
    for key in ("edge_attr", "edge_weight"):
        assert torch.equal(batch[key], data[key][batch.e_id])
    assert batch.names == [data.names[i] for i in batch.n_id]
    assert (batch.table == data.table[batch.n_id.numpy()]).all()
    assert torch.equal(batch.graph_level, data.graph_level)
    assert batch.title == data.title
