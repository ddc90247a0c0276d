"""GAT's convolution against its formula, node by node, and against PyG's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv as PyGConv

import handful as hf
from graphs import make_graph
from handful.nn.gat import GATConv
from handful.samplers.full import full_adjacency


def by_definition(conv: GATConv, graph: hf.Graph, x: Tensor) -> Tensor:
    """A softmax over the neighbours of each node and the node itself, head by head."""
    z = conv.linear(x).view(len(x), conv.heads, conv.channels)
    rows = []
    for v in range(graph.num_nodes):
        around = graph.edge_index[0][graph.edge_index[1] == v].tolist()
        around = sorted({*around, v})
        score = (z[around] * conv.source).sum(-1) + (z[v] * conv.target).sum(-1)
        share = F.leaky_relu(score, 0.2).softmax(0)
        rows.append((share[:, :, None] * z[around]).sum(0))
    out = torch.stack(rows)
    return (out.mean(1) if conv.average else out.flatten(1)) + conv.bias


@pytest.mark.parametrize(("heads", "average"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("undirected", [True, False])
def test_it_is_its_formula_and_pygs_and_so_are_its_gradients(undirected: bool, heads: int, average: bool) -> None:
    graph = make_graph(30, degree=3, undirected=undirected).coalesce().without_loops()
    torch.manual_seed(0)
    conv = GATConv(graph.num_features, 6, heads, average).double()  # in float64 the bound of assert_close is enough
    x = graph.x.double().requires_grad_()
    ours, theirs = conv(full_adjacency(graph), x), by_definition(conv, graph, x)
    torch.testing.assert_close(ours, theirs)
    tensors, weight = [x, *conv.parameters()], torch.randn_like(ours)
    for a, b in zip(*(torch.autograd.grad((out * weight).sum(), tensors) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)

    twin = PyGConv(graph.num_features, conv.channels, heads=heads, concat=not average).double()
    twin.lin.weight.data, twin.bias.data = conv.linear.weight.data, conv.bias.data
    twin.att_src.data, twin.att_dst.data = conv.source.data[None], conv.target.data[None]
    torch.testing.assert_close(ours, twin(x, graph.edge_index))


def test_some_targets_are_some_rows_and_a_skip_is_added(graph: hf.Graph) -> None:
    adj, conv, x = full_adjacency(graph), GATConv(graph.num_features, 6, 2).double(), graph.x.double()
    whole = conv(adj, x)
    torch.testing.assert_close(conv(adj.rows(20, 33), x), whole[20:33])
    skip = torch.nn.Linear(graph.num_features, 6).double()
    torch.testing.assert_close(conv(adj, x, skip), whole + skip(x))


def test_heads_share_the_width_and_the_last_layer_averages_them() -> None:
    model = hf.GAT(8, 5, hidden=12, layers=3, heads=3)
    assert [(conv.channels, conv.average) for conv in model.convs] == [(4, False), (4, False), (5, True)]
    projected = hf.GAT(8, 5, hidden=12, layers=2, heads=3, output_projection=True)
    assert [(conv.channels, conv.average) for conv in projected.convs] == [(4, False), (4, False)]


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(hf.HandfulError, match=r"hidden \(10\) must be a multiple of heads \(3\)"):
        hf.make_model("gat", 4, 3, hidden=10, heads=3)
