"""``accelerate``: PyG's stacks as handful's, against PyG's own outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    BatchNorm,
    GATConv,
    GCNConv,
    GraphSAGE,
    LayerNorm,
    SAGEConv,
    Sequential,
)

import handful as hf
from handful.samplers.full import full_adjacency
from handful.training.module import logits_of

GRAPH = hf.load("synthetic?nodes=120&degree=6&features=5&classes=4&seed=3")


class Net(nn.Module):
    """As users write them."""

    def __init__(self, conv: Any = GCNConv, p: float = 0.5) -> None:
        super().__init__()
        self.conv1, self.norm, self.conv2, self.p = conv(5, 8), nn.BatchNorm1d(8), conv(8, 4), p

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, p=0.25, training=self.training)
        x = F.relu(self.norm(self.conv1(x, edge_index)))
        return self.conv2(F.dropout(x, p=self.p, training=self.training), edge_index)


class Inner(nn.Module):
    def __init__(self, forward: Any, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.way = forward

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.way(self, x, edge_index)


def sequence(*between: nn.Module, conv: Any = SAGEConv) -> nn.Module:
    first, second = ((conv(*widths), "x, edge_index -> x") for widths in ((5, 8), (8, 4)))
    return Sequential("x, edge_index", [first, *between, second])


def trained(model: nn.Module) -> nn.Module:
    """Statistics and biases that are not those of a new model."""
    for module in model.modules():
        for name, value in module.named_buffers(recurse=False):
            if "running" in name:
                value.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def outputs(model: nn.Module) -> Tensor:
    adj = full_adjacency(GRAPH)
    with torch.no_grad():
        model.eval()
        return model(GRAPH.x, adj.edge_index) if not hasattr(model, "infer") else hf.infer(model, GRAPH)


SIZES = {"in_channels": 5, "hidden_channels": 8, "out_channels": 4}


@pytest.mark.parametrize("kind", [GCN, GraphSAGE, GAT])
@pytest.mark.parametrize(
    "options",
    [
        {"num_layers": 1},
        {"num_layers": 2, "dropout": 0.5},
        {"num_layers": 3, "norm": "batch_norm", "norm_kwargs": {"eps": 1e-2}},
        {"num_layers": 3, "norm": "layer_norm", "norm_kwargs": {"mode": "node"}},
        {"num_layers": 3, "norm": BatchNorm(8, momentum=0.3)},
        {"num_layers": 2, "bias": False},
        {"num_layers": 2, "jk": "last", "norm": "batch_norm"},
    ],
    ids=str,
)
def test_models_of_pyg_give_the_same_outputs(kind: Any, options: dict[str, Any]) -> None:
    if kind is GAT:
        options = {**options, "dropout": 0.0}  # a GAT of PyG drops attention too
    model = trained(kind(**SIZES | options))
    ours = hf.accelerate(model)
    torch.testing.assert_close(outputs(ours), outputs(model), rtol=1e-5, atol=1e-5)
    assert ours.options["dropout"] == options.get("dropout", 0.0)


@pytest.mark.parametrize(
    "model",
    [
        GAT(**SIZES, num_layers=3, heads=2),
        GAT(**SIZES, num_layers=2, heads=4, jk="last"),
        GraphSAGE(**SIZES, num_layers=2, root_weight=False),
        GCN(5, 8, num_layers=2),
        Net(GCNConv),
        Net(SAGEConv),
        Net(GATConv),
        sequence(nn.ReLU(inplace=True)),
        sequence(LayerNorm(8, mode="node"), nn.ReLU(), nn.Dropout(0.5), conv=GCNConv),
        GraphSAGE(-1, 8, 2, 4).double(),
        Inner(
            lambda m, x, e: m.out(m.conv(m.lin(x), e).relu()),
            lin=nn.Linear(5, 6),
            conv=SAGEConv(6, 6),
            out=nn.Linear(6, 2),
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_stacks_and_options_give_the_same_outputs(model: nn.Module) -> None:
    x = GRAPH.x.to(torch.float64) if isinstance(model, GraphSAGE) and model.in_channels == -1 else GRAPH.x
    with torch.no_grad():
        model(x, full_adjacency(GRAPH).edge_index)  # gives lazy weights their shape
    ours = hf.accelerate(trained(model))
    if x.dtype == torch.float64:
        assert next(ours.parameters()).dtype == torch.float64
        return
    torch.testing.assert_close(outputs(ours), outputs(model), rtol=1e-5, atol=1e-5)


def test_a_training_step_has_the_same_gradients() -> None:
    model = GraphSAGE(**SIZES, num_layers=2, norm="batch_norm")
    ours = hf.accelerate(model)
    batch = next(hf.RandomNodes(parts=2).epoch(GRAPH, seed=0, epoch=0))
    for one in (model.train(), ours.train()):
        F.cross_entropy(logits_of(one, batch)[batch.targets], batch.y).backward()
    torch.testing.assert_close(
        ours.convs[0].neighbor.weight.grad, model.convs[0].lin_l.weight.grad, rtol=1e-4, atol=1e-6
    )
    torch.testing.assert_close(ours.acts[0].norm.running_var, model.norms[0].module.running_var)


def test_weights_that_the_model_lacks_stay_zero() -> None:
    ours = hf.accelerate(GraphSAGE(**SIZES, num_layers=2, root_weight=False, bias=False))
    hf.fit(ours, GRAPH, hf.RandomNodes(parts=2), epochs=2)
    assert not any(conv.own.weight.any() or conv.neighbor.bias.any() for conv in ours.convs)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (GIN(**SIZES, num_layers=2), "GINConv"),
        (GAT(**SIZES, num_layers=2, v2=True), "GATv2Conv"),
        (GraphSAGE(**SIZES, num_layers=2, jk="cat"), "JumpingKnowledge"),
        (GraphSAGE(**SIZES, num_layers=2, jk="max"), "JumpingKnowledge"),
        (GraphSAGE(**SIZES, num_layers=2, act="tanh"), "Tanh"),
        (GraphSAGE(**SIZES, num_layers=2, act=None), "no stack"),
        (GraphSAGE(**SIZES, num_layers=2, act_first=True, norm="batch_norm"), "ReLU → norm"),
        (GraphSAGE(**SIZES, num_layers=2, project=True), "project=True"),
        (GraphSAGE(**SIZES, num_layers=2, normalize=True), "normalize=True"),
        (GraphSAGE(**SIZES, num_layers=2, aggr="max"), "aggr=max"),
        (GraphSAGE(**SIZES, num_layers=2, norm="graph_norm"), "GraphNorm"),
        (GraphSAGE(**SIZES, num_layers=2, norm="layer_norm"), "mode='graph'"),
        (GraphSAGE(**SIZES, num_layers=2, norm="batch_norm", norm_kwargs={"affine": False}), "affine"),
        (GraphSAGE(-1, 8, 2, 4), "call it once"),
        (GCN(**SIZES, num_layers=2, improved=True), "improved=True"),
        (GCN(**SIZES, num_layers=2, add_self_loops=False), "add_self_loops=False"),
        (GAT(**SIZES, num_layers=2, edge_dim=3), "edge_dim=3"),
        (GAT(**SIZES, num_layers=2, dropout=0.5), "dropout=0.5"),
        (GAT(**SIZES, num_layers=2, residual=True), "residual=True"),
        (Sequential("x, edge_index", [(GATConv(5, 4, heads=2), "x, edge_index -> x")]), "concat=True"),
        (sequence(nn.ReLU(), nn.Linear(8, 8)), "Linear"),
        (sequence(nn.LogSoftmax(1)), "LogSoftmax"),
        (Inner(lambda m, x, e: m.a(x, e) + m.b(x), a=SAGEConv(5, 4), b=nn.Linear(5, 4)), "step b"),
        (Inner(lambda m, x, e: m.a(F.dropout(x, 0.5), e), a=SAGEConv(5, 4)), "other outputs"),
        (Inner(lambda m, x, e: m.a(x, e) if x.sum() > 0 else x, a=SAGEConv(5, 4)), "traced"),
        (nn.Linear(5, 4), "Linear"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_handful_has_not_is_refused_by_name(model: nn.Module, says: str) -> None:
    with pytest.raises(hf.HandfulError) as error:
        hf.accelerate(model)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
