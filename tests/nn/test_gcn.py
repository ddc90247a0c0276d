"""GCN's convolution against its formula, dense, and against PyG's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv as PyGConv

from graphs import make_graph
from handful import Graph
from handful.nn.backbone import multiply_first
from handful.nn.gcn import GCNConv
from handful.samplers.full import full_adjacency
from small import dense_gcn


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("width", [2, 40], ids=["multiplied first", "aggregated first"])
@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_it_is_its_formula_and_so_are_its_gradients(kind: str, width: int, skip: bool) -> None:
    graph = make_graph(50, undirected=kind == "undirected", weighted=kind == "weighted").coalesce()
    adj = full_adjacency(graph)
    torch.manual_seed(0)
    conv, more = GCNConv(graph.num_features, width), nn.Linear(graph.num_features, width)
    x = graph.x.clone().requires_grad_()
    assert multiply_first(adj, x, width) == (width == 2)
    ours = conv(adj, x, more if skip else None)
    theirs = dense_gcn(graph) @ x @ conv.linear.weight.T + conv.linear.bias
    theirs = theirs + more(x) if skip else theirs
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    tensors = [x, *conv.parameters(), *(more.parameters() if skip else ())]
    weight = torch.randn_like(ours)
    for a, b in zip(*(torch.autograd.grad((out * weight).sum(), tensors) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_pygs(weighted: bool) -> None:
    graph = make_graph(50, weighted=weighted).coalesce()
    conv, twin = GCNConv(graph.num_features, 5), PyGConv(graph.num_features, 5)
    twin.lin.weight.data, twin.bias.data = conv.linear.weight.data, conv.linear.bias.data
    expected = twin(graph.x, graph.edge_index, graph.edge_weight)
    torch.testing.assert_close(conv(full_adjacency(graph), graph.x), expected, rtol=1e-4, atol=1e-5)


def test_some_targets_are_some_rows(graph: Graph) -> None:
    adj, conv = full_adjacency(graph), GCNConv(graph.num_features, 5)
    torch.testing.assert_close(conv(adj.rows(20, 33), graph.x), conv(adj, graph.x)[20:33])


def test_it_begins_with_xavier_weights_and_no_bias() -> None:
    conv = GCNConv(300, 100)
    bound = (6 / 400) ** 0.5
    assert 0.95 * bound < conv.linear.weight.abs().max().item() <= bound
    assert not conv.linear.bias.any()
