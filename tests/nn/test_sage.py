from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphs import make_graph
from handful.adjacency import Adjacency
from handful.nn.backbone import multiply_first
from handful.nn.sage import SAGEConv, _Convolution, convolution
from handful.samplers.full import full_adjacency


def operands(adj: Adjacency) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(0)
    shapes = ((adj.num_sources, 4), (3, 4), (3, 4), (3,))
    return tuple(torch.randn(s, dtype=torch.float64, generator=gen, requires_grad=True) for s in shapes)


@pytest.fixture(params=["square", "directed", "weighted", "rectangle"])
def adj(request: pytest.FixtureRequest) -> Adjacency:
    kind = request.param
    graph = make_graph(12, degree=2, undirected=kind != "directed", weighted=kind == "weighted")
    whole = full_adjacency(graph)
    return whole if kind != "rectangle" else whole.rows(3, 8)


@pytest.mark.parametrize("first", [True, False])
def test_the_fused_convolution_is_the_plain_one(adj: Adjacency, first: bool) -> None:
    tensors = operands(adj)
    results = []
    for function in (_Convolution.apply, convolution):
        out = function(*tensors, adj, first)
        results.append([out, *torch.autograd.grad(out, tensors, torch.cos(out.detach()))])
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain)


@pytest.mark.parametrize("first", [True, False])
def test_its_gradients(adj: Adjacency, first: bool) -> None:
    tensors = operands(adj)
    assert torch.autograd.gradcheck(lambda *t: _Convolution.apply(*t, adj, first), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: _Convolution.apply(*t, adj, first).square(), tensors)


@pytest.mark.parametrize("first", [True, False])
def test_the_input_may_need_no_gradient(adj: Adjacency, first: bool) -> None:
    h, *weights = operands(adj)
    out = _Convolution.apply(h.detach(), *weights, adj, first)
    for grad, weight in zip(torch.autograd.grad(out.sum(), weights), weights, strict=True):
        assert grad.shape == weight.shape


def test_the_order_follows_the_gradient() -> None:
    """Features that need none are aggregated first: then the backward pass has no aggregation at all."""
    adj = full_adjacency(make_graph(60))
    x = torch.randn(60, 16)
    assert not multiply_first(adj, x, 16)
    assert multiply_first(adj, x.requires_grad_(), 16)
    conv = SAGEConv(16, 16)
    expected = conv.neighbor(adj.mean(x)) + conv.own(x)
    torch.testing.assert_close(conv(adj, x), expected)
    torch.testing.assert_close(conv(adj, x.detach()), expected)
