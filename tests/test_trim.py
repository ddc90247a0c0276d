from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from graphs import make_graph
from handful import Graph
from handful.batch import Batch
from handful.nn import make_model
from handful.samplers.full import FullGraph
from handful.trim import trim


def batch_of(graph: Graph, targets: int, seed: int = 0) -> Batch:
    """The full graph with the loss on a few nodes of it, in double precision."""
    batch = next(iter(FullGraph().epoch(graph, 0, 0)))
    chosen = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))[:targets]
    assert graph.y is not None
    return replace(batch, x=batch.x.double(), targets=chosen, y=graph.y[chosen])


def loss_and_gradients(model: nn.Module, batch: Batch) -> list[Tensor]:
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(batch)[batch.targets], batch.y)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def sparse_graph(kind: str) -> Graph:
    """A long tail of nodes that a few targets cannot see."""
    graph = make_graph(n=300, degree=1, undirected=kind != "directed", weighted=kind == "weighted")
    if kind == "loops":
        loops = torch.arange(0, 300, 3)
        edges = torch.cat([graph.edge_index, torch.stack([loops, loops])], 1)
        return Graph.from_edge_index(edges, 300, x=graph.x, y=graph.y, train_mask=graph.train_mask)
    return graph


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted", "loops"])
@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
@pytest.mark.parametrize("norm", ["ln", "none"])
def test_loss_and_gradients_stay_the_same(kind: str, name: str, norm: str) -> None:
    batch = batch_of(sparse_graph(kind), 12)
    torch.manual_seed(0)
    model = make_model(name, 8, 4, hidden=12, layers=3, dropout=0.0, norm=norm, residual=True).double().train()
    assert model.whole_layers == 0
    trimmed = trim(batch, model.depth)
    assert trimmed is not batch
    assert trimmed.num_nodes < batch.num_nodes
    sizes = [layer.num_targets for layer in trimmed.layers]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 12
    for a, b in zip(loss_and_gradients(model, trimmed), loss_and_gradients(model, batch), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)  # GCN's scales are float32


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted", "loops"])
@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_with_batch_norm_the_last_layer_alone_is_trimmed(kind: str, name: str) -> None:
    """Nothing is normalised after it; all layers before it see all nodes, and so do their statistics."""
    batch = batch_of(sparse_graph(kind), 12)
    torch.manual_seed(0)
    model = make_model(name, 8, 4, hidden=12, layers=3, dropout=0.0, norm="bn").double().train()
    trimmed = trim(batch, model.depth, model.whole_layers)
    assert [layer.num_targets for layer in trimmed.layers] == [batch.num_nodes, batch.num_nodes, 12]
    results = []
    for one in (trimmed, batch):
        again = copy.deepcopy(model)
        buffers = [buffer for _, buffer in again.named_buffers()]
        results.append([*loss_and_gradients(again, one), *buffers])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)  # GCN's scales are float32


def test_with_an_output_projection_all_layers_are_normalised() -> None:
    batch = batch_of(sparse_graph("undirected"), 12)
    model = make_model("sage", 8, 4, norm="bn", layers=2, output_projection=True).train()
    assert model.whole_layers == 2
    assert trim(batch, 2, model.whole_layers) is batch


def test_it_keeps_ids_features_and_labels_together() -> None:
    graph = sparse_graph("undirected")
    batch = batch_of(graph, 9, seed=3)
    trimmed = trim(batch, 2)
    assert graph.x is not None
    assert torch.equal(trimmed.x, graph.x[trimmed.nodes].double())
    assert torch.equal(trimmed.nodes[trimmed.targets], batch.nodes[batch.targets])
    assert torch.equal(trimmed.y, batch.y)


def test_a_closed_component_stays_symmetric() -> None:
    """Where a hop reaches nothing new, the backward pass needs no transpose."""
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    far = path + 4
    graph = Graph.from_edge_index(
        torch.cat([path, path.flip(0), far, far.flip(0)], 1),
        8,
        x=torch.eye(8),
        y=torch.zeros(8, dtype=torch.int64),
        train_mask=torch.ones(8, dtype=torch.bool),
        num_classes=2,
    )
    batch = next(iter(FullGraph().epoch(graph, 0, 0)))
    trimmed = trim(replace(batch, targets=torch.tensor([2]), y=batch.y[:1]), 4)
    assert [layer.symmetric for layer in trimmed.layers] == [True, True, False, False]
    for layer in trimmed.layers:
        dense = torch.zeros(layer.num_targets, layer.num_sources)
        dense[layer.edge_index[1], layer.edge_index[0]] = 1
        rebuilt = torch.zeros_like(dense.T)
        indptr, indices, _ = layer.transposed
        rebuilt[torch.repeat_interleave(torch.arange(layer.num_sources), indptr.diff()), indices.long()] = 1
        assert torch.equal(rebuilt, dense.T)


def test_leaves_alone_what_it_cannot_help() -> None:
    graph = make_graph(n=100, degree=10)
    full = next(iter(FullGraph().epoch(graph, 0, 0)))
    assert trim(full, 8) is full  # half of the nodes are targets and the rest are one hop away
    empty = replace(full, targets=full.targets[:0], y=full.y[:0])
    assert trim(empty, 3) is empty
    once = trim(batch_of(sparse_graph("undirected"), 5), 2)
    assert trim(once, 2) is once
