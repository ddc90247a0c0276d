"""Batches with stand-ins against a dense computation of the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import handful as hf
from graphs import make_graph
from handful.adjacency import Hop
from handful.mean_field import LEAST_SHARE
from handful.nn import make_model
from handful.nn.backbone import Backbone
from handful.training.execution import trimmer
from handful.training.first_hop import know
from handful.training.loss import node_loss

LAMBDA = 1.5
MODELS: dict[str, tuple[str, dict[str, Any], Hop]] = {
    "sage": ("sage", {}, "mean"),
    "loops": ("sage", {"self_loops": True}, "mean_with_loops"),
    "gcn": ("gcn", {}, "gcn"),
}


def sparse_graph(undirected: bool, weighted: bool) -> hf.Graph:
    """Few edges, so that parts leave many rows empty; the last ten nodes have none, and some have loops."""
    graph = make_graph(120, 2, undirected=undirected, weighted=weighted)
    keep = (graph.edge_index < 110).all(0)
    loops = torch.arange(0, 110, 9)
    edges = torch.cat([graph.edge_index[:, keep], torch.stack([loops, loops])], 1)
    weight = None if graph.edge_weight is None else torch.cat([graph.edge_weight[keep], torch.full((len(loops),), 0.5)])
    fields = {"x": graph.x, "y": graph.y, "train_mask": graph.train_mask, "val_mask": graph.val_mask}
    return hf.Graph.from_edge_index(edges, 120, edge_weight=weight, **fields)


def dense(graph: hf.Graph) -> Tensor:
    """The weights from source (column) to target (row)."""
    out = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    weight = torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
    source, target = graph.edge_index
    return out.index_put_((target, source), weight.double(), accumulate=True)


def aggregation(weights: Tensor, hop: Hop) -> tuple[Tensor, Tensor]:
    """The matrix of ``hop`` for these edges, and the mass of every row."""
    if hop != "mean":
        weights = weights + torch.diag((weights.diagonal() == 0).double())
    mass = weights.sum(1)
    if hop == "gcn":
        root = torch.where(mass > 0, mass.clamp_min(1e-30).rsqrt(), 0.0)
        return root[:, None] * weights * root, mass
    return torch.where(mass > 0, 1 / mass, 0.0)[:, None] * weights, mass


def apply_layer(model: Backbone, i: int, own: list[Tensor], around: list[Tensor]) -> list[Tensor]:
    """Layer ``i`` of all levels; BatchNorm takes its statistics over all rows together."""
    conv: Any = model.convs[i]
    linear = conv.linear if model.hop == "gcn" else conv.neighbor
    h, z = torch.cat(own), torch.cat(around)
    out = linear(z) + (0 if model.hop == "gcn" else conv.own(h)) + model.skips[i](h)
    if i < len(model.acts):
        norm: Any = model.acts[i].norm
        if model.norm == "bn":
            out = F.batch_norm(out, None, None, norm.weight, norm.bias, training=True, eps=norm.eps)
        elif model.norm == "ln":
            out = norm(out)
        out = F.relu(out)
    return list(out.split([len(level) for level in own]))


def reference(model: Backbone, graph: hf.Graph, nodes: Tensor, hop: Hop, mean_field: float) -> Tensor:
    """The outputs of ``nodes``, with a stand-in for each that lacks neighbours."""
    assert graph.x is not None
    edges, depth = dense(graph), model.depth
    whole, full = aggregation(edges, hop)
    powers = [graph.x.double()]
    for _ in range(2):
        powers.append(whole @ powers[-1])
    part, mass = aggregation(edges[nodes][:, nodes], hop)
    lacks = (full[nodes] - mass > 1e-5) & (mean_field / (mass + mean_field) >= LEAST_SHARE)
    lacks &= torch.tensor(mean_field > 0)
    rows = [nodes, nodes[lacks]] if mean_field else [nodes]
    own = [powers[k][row] for k, row in enumerate(rows)]
    around = [powers[k + 1][row] for k, row in enumerate(rows)]
    own = apply_layer(model, 0, own, around)
    for i in range(1, depth):
        z = part @ own[0]
        if mean_field:
            shrunk = (mass[lacks, None] * z[lacks] + mean_field * own[1]) / (mass[lacks, None] + mean_field)
            z = z.index_put((lacks.nonzero().squeeze(1),), shrunk)
        own = own if i < depth - 1 else own[:1]
        own = apply_layer(model, i, own, [z, *own[1:]])
    return own[0]


CASES = [*product(MODELS, (2, 3), ("none", "ln", "bn"), (True, False), (True, False), (0.0, LAMBDA))]


@pytest.mark.parametrize(("name", "depth", "norm", "undirected", "weighted", "mean_field"), CASES)
def test_outputs_and_gradients_are_those_of_the_dense_computation(
    name: str, depth: int, norm: str, undirected: bool, weighted: bool, mean_field: float
) -> None:
    kind, options, hop = MODELS[name]
    graph = sparse_graph(undirected, weighted)
    torch.manual_seed(0)
    model = make_model(kind, 8, 4, hidden=6, layers=depth, dropout=0.0, norm=norm, **options).double().train()
    assert isinstance(model, Backbone)
    how = hf.Settings(first_hop="exact", mean_field=mean_field)
    known = know(graph, model, how)
    assert graph.y is not None
    for sampler in (hf.RandomNodes(4), hf.RandomWalks(roots=20, length=2), hf.FullGraph()):
        sample = next(sampler.sample(graph, 0, 0))
        expected = reference(model, graph, sample.nodes, hop, mean_field)[sample.targets]
        wanted = torch.autograd.grad(
            node_loss(expected, graph.y[sample.nodes[sample.targets]]), list(model.parameters())
        )
        # A trimmed batch of BatchNorm has stand-ins for what its loss sees alone: other statistics.
        for trimmed in (False, True) if norm != "bn" or not mean_field else (False,):
            batch = known.make_batch(trimmer(model, trimmed, known)(sample))
            batch = replace(batch, x=batch.x.double())
            found = model(batch)[batch.targets]
            # Weights of edges and aggregated features are float32.
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            got = torch.autograd.grad(node_loss(found, batch.y), list(model.parameters()))
            for ours, theirs in zip(got, wanted, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sage", "loops"])  # GCN's degrees are those of the block: its rows are biased anyway
def test_in_a_linear_network_the_stand_in_makes_the_expected_row_exact(name: str) -> None:
    """E[z_v | v ∈ B] over all blocks of three of seven nodes, for layers without activation: the mean over all
    neighbours of what the first layer gives. Without stand-ins rows that are empty pull it to 0."""
    from itertools import combinations

    hop = MODELS[name][2]
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 0, 4, 5, 0], [1, 0, 2, 1, 3, 2, 4, 3, 4, 0, 0, 5]])
    torch.manual_seed(0)
    graph = hf.Graph.from_edge_index(edges, 7, x=torch.randn(7, 3))
    assert graph.x is not None
    whole, full = aggregation(dense(graph), hop)
    x = graph.x.double()
    own, around = torch.randn(3, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    first = x @ own + whole @ x @ around
    virtual = whole @ x @ own + whole @ whole @ x @ around
    exact = whole @ first
    for v in range(6):  # node 6 has no neighbours
        rows, plain = [], []
        for others in combinations([u for u in range(7) if u != v], 2):
            block = torch.tensor([v, *others])
            part, mass = aggregation(dense(graph)[block][:, block], hop)
            row = (part @ first[block])[0]
            plain.append(row)
            lacks = full[v] - mass[0] > 1e-9
            rows.append((mass[0] * row + LAMBDA * virtual[v]) / (mass[0] + LAMBDA) if lacks else row)
        found = torch.stack(rows).mean(0)
        if hop == "mean":
            torch.testing.assert_close(found, exact[v])
            assert (torch.stack(plain).mean(0) - exact[v]).norm() > 1e-3
        else:  # the loop stays in every block: the rest is the share of the node itself
            assert (found - exact[v]).norm() < (torch.stack(plain).mean(0) - exact[v]).norm()


def test_rows_that_lack_nothing_have_no_stand_in() -> None:
    graph = make_graph(60)
    model = hf.SAGE(8, 4, hidden=6, layers=3)
    known = know(graph, model, hf.Settings(first_hop="exact", mean_field=1.0))
    whole = known.make_batch(next(hf.FullGraph().sample(graph, 0, 0)))
    assert whole.num_nodes == graph.num_nodes
    part = known.make_batch(next(hf.RandomNodes(4).sample(graph, 0, 0)))
    assert part.num_nodes > 15
