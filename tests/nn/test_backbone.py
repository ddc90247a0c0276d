"""Stacks of layers, norms against torch's own, and the backbones against PyG's convolutions with the same weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import add_self_loops, remove_self_loops

import handful as hf
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.nn.backbone import Backbone, Norm, NormAct, Stack, multiply_first
from handful.samplers.full import full_adjacency
from handful.training.loop import batch_loss
from small import dense_mean, full_batch


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


def test_self_loops_are_pyg_s(graph: hf.Graph) -> None:
    """tunedGNN removes the self-loops that there are, and adds one to every node."""
    torch.manual_seed(0)
    graph = graph.without_loops()
    edges = torch.cat([graph.edge_index, torch.tensor([[0, 3], [0, 3]])], 1)
    looped = hf.Graph.from_edge_index(edges, graph.num_nodes, x=graph.x, y=graph.y, train_mask=graph.train_mask)
    model = hf.SAGE(graph.num_features, 3, hidden=8, layers=2, dropout=0.0, self_loops=True)
    closed = add_self_loops(remove_self_loops(edges)[0], num_nodes=graph.num_nodes)[0]
    x = graph.x.clone().requires_grad_()
    ours, theirs = model(replace(full_batch(looped), x=x)), reference(model, x, closed)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    gradients = [torch.autograd.grad(z.square().sum(), x)[0] for z in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(hf.infer(model, looped, 7), model.eval()(full_batch(looped)), rtol=1e-4, atol=1e-5)


def test_input_dropout_drops_features_while_training(graph: hf.Graph) -> None:
    model = hf.GCN(graph.num_features, 3, hidden=8, layers=2, dropout=0.0, input_dropout=0.25, norm="none")
    x = torch.ones(4000, graph.num_features)
    model.step_seed = 5
    kept = model.train().embed(x)
    assert kept.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    assert float((kept == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert torch.equal(model.embed(x), kept)
    model.step_seed = 6
    assert not torch.equal(model.embed(x), kept)
    assert torch.equal(model.eval().embed(x), x)


def test_two_logits_are_a_softmax_over_two_classes() -> None:
    graph = make_graph(80, classes=2)
    assert graph.num_outputs == 1
    for name in ("gcn", "sgformer"):
        torch.manual_seed(0)
        model = hf.make_model(name, graph.num_features, graph.num_outputs, hidden=8, two_logits=True)
        assert model.out_features == 2
        batch = full_batch(graph)
        logits = model.eval()(batch)
        nll = F.nll_loss(F.log_softmax(logits, 1)[batch.targets], batch.y)
        assert batch_loss(model, batch).item() == pytest.approx(nll.item(), rel=1e-5)
        run = hf.fit(model, graph, hf.RandomNodes(2), epochs=2)
        assert 0 <= run.test <= 1


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


def test_several_heads_too() -> None:
    graph = make_graph(60)
    model = hf.GAT(graph.num_features, graph.num_classes, hidden=12, layers=2, heads=3, dropout=0.0)
    theirs = reference(model, graph.x, graph.edge_index)
    torch.testing.assert_close(model(full_batch(graph)), theirs, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("cls", [hf.SAGE, hf.GCN, hf.GAT])
def test_only_batch_norm_sees_nodes_that_no_edge_leads_to(cls: type[Backbone]) -> None:
    """``whole_layers`` says so, and a node far away from all others shows it."""
    graph = make_graph(40)
    lonely = hf.Graph.from_edge_index(graph.edge_index, 41, x=torch.cat([graph.x, torch.full((1, 8), 9.0)]))
    fields = {"y": torch.zeros(41), "num_classes": 4, "train_mask": torch.ones(41, dtype=torch.bool)}
    for norm in ("bn", "ln", "none"):
        torch.manual_seed(0)
        model = cls(8, 4, hidden=8, layers=2, norm=norm, dropout=0.0)
        with_it, without = model(full_batch(lonely.replace(**fields))), model(full_batch(graph))
        assert torch.allclose(with_it[:40], without, atol=1e-5) == (model.whole_layers == 0) == (norm != "bn")


# -- norm, ReLU and dropout ------------------------------------------------------------------------------------------


def torchs(norm: str, features: int) -> nn.Module:
    kinds: dict[str, nn.Module] = {"bn": nn.BatchNorm1d(features), "ln": nn.LayerNorm(features), "none": nn.Identity()}
    return nn.Sequential(kinds[norm], nn.ReLU())


def twins(norm: Any, features: int = 6) -> tuple[NormAct, nn.Module]:
    ours, theirs = NormAct(norm, features, 0.0), torchs(norm, features)
    if ours.norm is not None:
        ours.norm.weight.data.uniform_(0.5, 2)
        ours.norm.bias.data.normal_()
        theirs[0].load_state_dict(ours.norm.state_dict())
    return ours, theirs


@pytest.mark.parametrize("norm", get_args(Norm))
def test_it_is_torchs_norm_and_relu_in_training_and_after(norm: str) -> None:
    torch.manual_seed(0)
    ours, theirs = twins(norm)
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        mine = (torch.randn(20, 6) * 2 + 1).requires_grad_()
        other = mine.detach().clone().requires_grad_()
        a, b = ours(mine, 0), theirs(other)
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        weight = torch.randn(20, 6)
        (a * weight).sum().backward()
        (b * weight).sum().backward()
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", get_args(Norm))
def test_dropout_keeps_a_share_scaled_up_and_only_in_training(norm: Any) -> None:
    act, plain = NormAct(norm, 8, 0.25), NormAct(norm, 8, 0.0)
    h = torch.randn(5000, 8)
    whole, dropped = plain(h, 3), act(h, 3)
    alive = whole > 0
    kept = dropped[alive] != 0
    assert float(kept.double().mean()) == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(dropped[alive][kept], whole[alive][kept] / 0.75)
    assert torch.equal(dropped, act(h, 3)) or norm == "bn"
    assert not torch.equal(dropped, act(h, 4))
    act.eval()
    assert torch.equal(act(h, 3), act(h, 4))


# -- stacks ----------------------------------------------------------------------------------------------------------


class Sums(Stack):
    """h → Wᵢ (own + mean), so that every layer can be told from the others."""

    def __init__(self, features: int, layers: int) -> None:
        super().__init__(features, features, layers=layers)
        self.scales = nn.ModuleList(nn.Linear(features, features) for _ in range(layers))

    whole_layers = 0

    def blocks(self) -> list[list[nn.Module]]:
        return [[scale] for scale in self.scales]

    def embed(self, x: Tensor) -> Tensor:
        return x + 1

    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        return self.scales[i](adj.own(h) + adj.mean(h))

    def head(self, h: Tensor) -> Tensor:
        return 2 * h


def by_hand(model: Sums, graph: hf.Graph) -> Tensor:
    h, mean = graph.x + 1, dense_mean(graph)
    for scale in model.scales:
        h = scale(h + mean @ h)
    return 2 * h


@pytest.mark.parametrize("layers", [1, 3])
def test_embed_layers_head(layers: int) -> None:
    graph = make_graph(40, undirected=False)
    model = Sums(graph.num_features, layers)
    assert model.depth == layers
    expected = by_hand(model, graph)
    torch.testing.assert_close(model(full_batch(graph)), expected, rtol=1e-4, atol=1e-4)
    for chunk in (1, 13, 1000):
        torch.testing.assert_close(hf.infer(model, graph, chunk), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_a_stack_of_rectangles_gives_the_targets_alone(hops: int) -> None:
    """With all neighbours of as many hops as there are layers, or more, that is exact."""
    graph = make_graph(40)
    model = Sums(graph.num_features, 2)
    exact = by_hand(model, graph)
    for batch in hf.Neighbors((-1,) * hops, 10, trimmed=True).epoch(graph, 0, 0):
        out = model(batch)
        assert len(out) == len(batch.targets)
        same = torch.allclose(out, exact[batch.nodes[batch.targets]], rtol=1e-4, atol=1e-4)
        assert same == (hops >= 2)
