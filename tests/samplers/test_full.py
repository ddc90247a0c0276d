from __future__ import annotations

import pytest
import torch

from graphs import make_graph
from handful import FullGraph, Graph, make_batch
from handful.samplers.full import full_adjacency
from rounding import assert_within, sum_bound
from small import dense_mean


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_the_adjacency_is_the_dense_matrix(kind: str) -> None:
    graph = make_graph(40, undirected=kind == "undirected", weighted=kind == "weighted")
    adj = full_adjacency(graph)
    mean = dense_mean(graph).double()
    most = int(graph.in_degree.max())
    assert_within(
        adj.mean(graph.x),
        mean @ graph.x.double(),
        sum_bound(torch.float32, mean.abs() @ graph.x.double().abs(), 2 * most),  # the mean's own sum, and that of rows
    )
    assert (adj.num_sources, adj.num_targets, adj.num_edges) == (40, 40, graph.num_edges)
    assert adj.symmetric == (kind == "undirected")
    assert adj.has_loops == bool((graph.edge_index[0] == graph.edge_index[1]).any())


def test_one_sample_with_every_training_node_the_same_in_every_epoch(medium: Graph) -> None:
    for seed, epoch in ((0, 0), (1, 5)):
        [sample] = FullGraph().sample(medium, seed, epoch)
        assert sample.nodes.tolist() == list(range(300))
        assert torch.equal(sample.targets, medium.train_nodes)
        assert sample.shared


def test_nothing_is_copied(medium: Graph) -> None:
    [sample] = FullGraph().sample(medium, 0, 0)
    batch = make_batch(medium, sample)
    assert batch.x is medium.x
    assert batch.nodes is medium.nodes
    (adj,) = batch.layers
    assert adj.indptr is medium.indptr
    assert adj.indices is medium.indices
