from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import handful as hf
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.nn.backbone import multiply_first
from handful.nn.sage import SAGEConv, _Convolution
from handful.samplers.full import full_adjacency
from rounding import UNIT
from small import dense, dense_mean

ROUNDED = 5 * UNIT[torch.bfloat16]
"""Features, weights, the mean, its product and the sum of both terms are rounded, each by one unit of its norm."""


def operands(adj: Adjacency) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(0)
    shapes = ((adj.num_sources, 3), (2, 3), (2, 3), (2,))
    return tuple(torch.randn(s, dtype=torch.float64, generator=gen, requires_grad=True) for s in shapes)


@pytest.fixture(params=["square", "directed", "weighted", "rectangle"])
def adj(request: pytest.FixtureRequest) -> Adjacency:
    kind = request.param
    graph = make_graph(8, degree=2, undirected=kind != "directed", weighted=kind == "weighted")
    whole = full_adjacency(graph)
    return whole if kind != "rectangle" else whole.rows(3, 7)


@pytest.mark.parametrize("first", [True, False])
def test_the_fused_convolution_is_the_plain_one(adj: Adjacency, first: bool) -> None:
    tensors = operands(adj)
    results = []
    for function in (_Convolution(adj, first), _Convolution(adj, first).twin):
        out = function(*tensors)
        results.append([out, *torch.autograd.grad(out, tensors, torch.cos(out.detach()))])
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain)


@pytest.mark.parametrize("width", [1, 64], ids=["multiplied-first", "aggregated-first"])
def test_features_may_be_float16(adj: Adjacency, width: int) -> None:
    """They are widened where they are read: the result is that of the widened features, bit for bit."""
    short = operands(adj)[0].detach().half()
    conv = SAGEConv(short.shape[1], width)
    results = [conv(adj, features) for features in (short, short.float())]
    assert torch.equal(*results)
    grads = [torch.autograd.grad(out.square().sum(), list(conv.parameters())) for out in results]
    assert all(torch.equal(*pair) for pair in zip(*grads, strict=True))


@pytest.mark.parametrize("first", [True, False])
def test_its_gradients(adj: Adjacency, first: bool) -> None:
    tensors = operands(adj)
    assert torch.autograd.gradcheck(_Convolution(adj, first), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: _Convolution(adj, first)(*t).square(), tensors)


@pytest.mark.parametrize("first", [True, False])
def test_the_input_may_need_no_gradient(adj: Adjacency, first: bool) -> None:
    h, *weights = operands(adj)
    out = _Convolution(adj, first)(h.detach(), *weights)
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


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("first", [True, False])
def test_bfloat16_is_close_and_its_gradients_are_the_masters(adj: Adjacency, first: bool) -> None:
    exact = operands(adj)
    wide = [t.detach().float().requires_grad_() for t in exact]
    out = _Convolution(adj, first)(wide[0].to(torch.bfloat16), *wide[1:])
    assert out.dtype == torch.bfloat16
    cotangent = torch.cos(out.detach())
    found = torch.autograd.grad(out, wide, cotangent)
    plain = _Convolution(adj, first).twin(*exact)
    for mine, true in zip(found, torch.autograd.grad(plain, exact, cotangent.double()), strict=True):
        assert mine.dtype == torch.float32
        assert (mine.double() - true).norm() < ROUNDED * true.norm()
    assert (out.double() - plain).norm() < ROUNDED * plain.norm()


@pytest.mark.usefixtures("both_ways")
def test_autocast_asks_for_bfloat16() -> None:
    adj = full_adjacency(make_graph(60))
    conv, x = SAGEConv(16, 8), torch.randn(60, 16)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(adj, x)
    assert out.dtype == torch.bfloat16
    assert (out.float() - conv(adj, x)).norm() < ROUNDED * out.float().norm()


def test_every_sampler_gives_the_weighted_mean() -> None:
    """h' = Σ w·h / Σ w against a dense product, through each sampler that can see the whole graph at once."""
    graph = make_graph(30, degree=3, weighted=True)
    nobody = torch.zeros(30, dtype=torch.bool)
    graph = graph.replace(train_mask=~nobody, val_mask=nobody, test_mask=nobody)
    model = hf.SAGE(graph.num_features, 3, layers=1, residual=False).eval()
    conv = model.convs[0]
    around = conv.neighbor(dense_mean(graph) @ graph.x) + conv.own(graph.x)
    samplers = [hf.FullGraph(), hf.RandomNodes(1), hf.Clusters(1, 1), hf.Neighbors((99,), 30)]
    for sampler in samplers:
        batch = next(iter(sampler.epoch(graph, 0, 0)))
        torch.testing.assert_close(model(batch)[batch.targets], around[batch.nodes[batch.targets]], msg=str(sampler))
    torch.testing.assert_close(hf.infer(model, graph, chunk=7), around)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_self_loops_join_the_weighted_mean(weighted: bool, undirected: bool) -> None:
    """(h_v + Σ w·h_u) / (1 + Σ w) against a dense product: forward, gradient, inference by chunks and by blocks."""
    graph = make_graph(30, degree=3, undirected=undirected, weighted=weighted).without_loops()
    model = hf.SAGE(graph.num_features, 3, layers=1, residual=False, self_loops=True).eval()
    conv = model.convs[0]
    closed = dense(graph) + torch.eye(30)
    x = graph.x.clone().requires_grad_()
    batch = replace(next(iter(hf.FullGraph().epoch(graph, 0, 0))), x=x)
    found, expected = model(batch), conv.neighbor(closed / closed.sum(1, keepdim=True) @ x) + conv.own(x)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(out.square().sum(), x)[0] for out in (found, expected)]
    torch.testing.assert_close(*slopes)
    torch.testing.assert_close(hf.infer(model, graph, chunk=7), expected)
    torch.testing.assert_close(hf.infer(model, graph, memory="8GiB"), expected)
