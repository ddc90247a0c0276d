"""The backbones against stacks of PyG's own convolutions with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.nn.backbone import Backbone, multiply_first
from handful.samplers.full import full_adjacency


def full_batch(graph: hf.Graph) -> Batch:
    return next(iter(hf.FullGraph().epoch(graph, 0, 0)))


def pyg_twin(model: Backbone, i: int) -> nn.Module:
    """PyG's convolution with the weights of layer ``i``."""
    conv = model.convs[i]
    if isinstance(model, hf.SAGE):
        twin = SAGEConv(conv.neighbor.in_features, conv.neighbor.out_features)
        twin.lin_l.load_state_dict(conv.neighbor.state_dict())
        twin.lin_r.load_state_dict(conv.own.state_dict())
        return twin
    if isinstance(model, hf.GCN):
        twin = GCNConv(conv.linear.in_features, conv.linear.out_features)
        twin.lin.weight.data = conv.linear.weight.data
        twin.bias.data = conv.linear.bias.data
        return twin
    twin = GATConv(conv.linear.in_features, conv.channels, heads=conv.heads, concat=not conv.average)
    twin.lin.weight.data = conv.linear.weight.data
    twin.att_src.data, twin.att_dst.data = conv.source.data[None], conv.target.data[None]
    twin.bias.data = conv.bias.data
    return twin


def reference(model: Backbone, x: Tensor, edge_index: Tensor) -> Tensor:
    """The definition of the stack, written out in PyG and torch, dropout off."""
    h = x if model.input_projection is None else model.input_projection(x)
    for i in range(model.depth):
        inner = pyg_twin(model, i)(h, edge_index)
        if len(model.skips):
            inner = inner + model.skips[i](h)
        if i < len(model.acts):
            norm = model.acts[i].norm
            if isinstance(norm, nn.BatchNorm1d):
                inner = F.batch_norm(inner, None, None, norm.weight, norm.bias, training=True)
            elif isinstance(norm, nn.LayerNorm):
                inner = F.layer_norm(inner, inner.shape[1:], norm.weight, norm.bias)
            inner = F.relu(inner)
        h = inner
    return h if model.output_projection is None else model.output_projection(h)


OPTIONS = [
    {"norm": "bn", "residual": True},
    {"norm": "ln", "output_projection": True},
    {"norm": "none", "input_projection": True, "residual": True, "output_projection": True},
]


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("cls", [hf.SAGE, hf.GCN, hf.GAT])
def test_equals_a_stack_of_pyg_convolutions(cls: type[Backbone], options: dict, undirected: bool) -> None:
    graph = make_graph(80, undirected=undirected).coalesce()
    torch.manual_seed(1)
    model = cls(graph.num_features, graph.num_classes, hidden=12, layers=3, dropout=0.0, **options)
    model.train()
    ours, theirs = model(full_batch(graph)), reference(model, graph.x, graph.edge_index)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    parameters = list(model.parameters())
    ours_grad = torch.autograd.grad((ours * weight).sum(), parameters)
    theirs_grad = torch.autograd.grad((theirs * weight).sum(), parameters, allow_unused=True)
    # The twins hold copies of the convolutions' weights, so only what they share with the model can be compared here.
    compared = 0
    for a, b in zip(ours_grad, theirs_grad, strict=True):
        if b is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
            compared += 1
    assert compared or options == OPTIONS[1]


def test_heads_share_the_width_and_the_last_layer_averages_them() -> None:
    graph = make_graph(60)
    model = hf.GAT(graph.num_features, graph.num_classes, hidden=12, layers=2, heads=3, dropout=0.0)
    torch.testing.assert_close(
        model(full_batch(graph)), reference(model, graph.x, graph.edge_index), rtol=1e-4, atol=1e-5
    )


def test_merged_self_and_residual_products_keep_exact_gradients() -> None:
    graph = make_graph(50)
    model = hf.SAGE(graph.num_features, graph.num_classes, hidden=6, layers=1, residual=True)
    model(full_batch(graph)).sum().backward()
    own, skip = model.convs[0].own.weight.grad, model.skips[0].weight.grad
    expected = graph.x.sum(0).expand_as(own)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(skip, expected, rtol=1e-4, atol=1e-4)


def test_both_orders_of_the_product_agree() -> None:
    graph = make_graph(100, degree=12)
    adj = full_adjacency(graph)
    assert multiply_first(adj, torch.empty(100, 64), 2)
    assert not multiply_first(adj, torch.empty(100, 2), 64)
    for width in (2, 64):
        conv = hf.SAGE(graph.num_features, width, layers=1).convs[0]
        expected = conv.neighbor(adj.mean(graph.x)) + conv.own(graph.x)
        torch.testing.assert_close(conv(adj, graph.x), expected, rtol=1e-4, atol=1e-5)


def test_dropout_comes_from_the_step_seed_alone() -> None:
    graph = make_graph(60)
    model = hf.SAGE(graph.num_features, graph.num_classes, hidden=16, layers=2, norm="ln")
    batch = full_batch(graph)
    model.step_seed = 7
    first = model(batch)
    torch.manual_seed(99)
    assert torch.equal(first, model(batch))
    model.step_seed = 8
    assert not torch.equal(first, model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie in"),
        ({"norm": "batch"}, "there is no norm 'batch'"),
        ({"resdual": True}, "did you mean residual"),
    ],
)
def test_a_wrong_option_is_named(options: dict, words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.make_model("sage", 4, 3, **options)


def test_an_unknown_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(hf.HandfulError, match="did you mean sage"):
        hf.make_model("sgae", 4, 3)
    with pytest.raises(hf.HandfulError, match="multiple of heads"):
        hf.make_model("gat", 4, 3, hidden=10, heads=3)
