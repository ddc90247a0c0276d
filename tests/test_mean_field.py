"""Batches with stand-ins against a dense computation of the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import handful as hf
from graphs import make_graph
from handful.adjacency import Hop
from handful.batch import Sample
from handful.mean_field import LEAST_SHARE
from handful.nn import make_model
from handful.nn.backbone import Backbone
from handful.samplers.induced import induced_adjacency
from handful.theory.mean_field import row_variance
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
        if model.options["norm"] == "bn":
            out = F.batch_norm(out, None, None, norm.weight, norm.bias, training=True, eps=norm.eps)
        elif model.options["norm"] == "ln":
            out = norm(out)
        out = F.relu(out)
    return list(out.split([len(level) for level in own]))


def reference(
    model: Backbone, graph: hf.Graph, part: Tensor, sample: hf.Sample, hop: Hop, mean_field: float, exact: bool
) -> Tensor:
    """The outputs of the targets of ``sample``, which is what is left of the nodes of ``part``: layer i computes the
    first ``computed[i]`` of its nodes, and a stand-in for each of those that the next layer computes and that lack
    neighbours."""
    assert graph.x is not None
    edges, nodes = dense(graph), sample.nodes
    whole, full = aggregation(edges, hop)
    powers = [graph.x.double()]
    for _ in range(2):
        powers.append(whole @ powers[-1])
    among, mass = aggregation(edges[part][:, part], hop)
    at = (nodes[:, None] == part).nonzero()[:, 1]
    among, mass, full = among[at][:, at], mass[at], full[nodes]
    lacks = (full - mass > 1e-5) & (mean_field >= LEAST_SHARE * (mass + mean_field)) & torch.tensor(mean_field > 0)
    computed = [len(nodes), *(layer.num_targets for layer in sample.stack(model.depth - 1)), 0]

    def aggregate(rows: int, h: Tensor, virtual: Tensor) -> Tensor:
        """z of the first ``rows`` nodes; both arguments have a row for every node, 0 where it was not computed."""
        share = torch.where(lacks, mean_field / (mass + mean_field), 0.0)[:rows, None]
        return (1 - share) * (among @ h)[:rows] + share * virtual[:rows]

    def everywhere(rows: Tensor, h: Tensor) -> Tensor:
        return torch.zeros(len(nodes), h.shape[1], dtype=h.dtype).index_put((rows,), h)

    own, around = [level[nodes] for level in powers[:2]], [level[nodes] for level in powers[1:]]
    if not exact:
        around[0] = torch.cat([aggregate(computed[1], *own), around[0][computed[1] :]])
    for i in range(model.depth):
        rows, served = torch.arange(computed[i]), lacks[: computed[i + 1]].nonzero().squeeze(1)
        if i:
            around = [aggregate(computed[i], *own), own[1]]
        both = [own[0][rows], own[1][served]], [around[0][rows], around[1][served]]
        own = [everywhere(*pair) for pair in zip((rows, served), apply_layer(model, i, *both), strict=True)]
    return own[0][sample.targets]


CASES = [
    *product(
        MODELS,
        (2, 3),
        ("none", "ln", "bn"),
        (True, False),
        (True, False),
        ((0.0, True), (LAMBDA, True), (LAMBDA, False)),
    )
]
# The gate has every fifth: five is prime to all factors above, so that it has each of their values.
THINNED = [case if i % 5 == 0 else pytest.param(*case, marks=pytest.mark.slow) for i, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "depth", "norm", "undirected", "weighted", "stands_in"), THINNED)
def test_outputs_and_gradients_are_those_of_the_dense_computation(
    name: str, depth: int, norm: str, undirected: bool, weighted: bool, stands_in: tuple[float, bool]
) -> None:
    (kind, options, hop), (mean_field, exact) = MODELS[name], stands_in
    graph = sparse_graph(undirected, weighted)
    torch.manual_seed(0)
    model = make_model(kind, 8, 4, hidden=6, layers=depth, dropout=0.0, norm=norm, **options).double().train()
    assert isinstance(model, Backbone)
    how = hf.Settings(first_hop="exact" if exact else "sampled", mean_field=mean_field)
    assert graph.y is not None
    for trimmed in (False, True):
        known = know(graph, model, replace(how, trim=trimmed))
        for sampler in (hf.RandomNodes(4), hf.RandomWalks(roots=20, length=2), hf.FullGraph()):
            sample = next(sampler.sample(graph, 0, 0))
            assert trimmed or known.cut(sample) is sample
            expected = reference(model, graph, sample.nodes, known.cut(sample), hop, mean_field, exact)
            wanted = torch.autograd.grad(
                node_loss(expected, graph.y[sample.nodes[sample.targets]]), list(model.parameters())
            )
            batch = known.make_batch(sample)
            batch = replace(batch, x=batch.x.double())
            result = model(batch)[batch.targets]
            # Weights of edges and aggregated features are float32.
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
            got = torch.autograd.grad(node_loss(result, batch.y), list(model.parameters()))
            for ours, theirs in zip(got, wanted, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sage", "loops"])  # GCN's degrees are those of the block: its rows are biased anyway
def test_in_a_linear_network_the_stand_in_makes_the_expected_row_exact(name: str) -> None:
    """E[z_v | v ∈ B] over all blocks of three of seven nodes, for layers without activation: the mean over all
    neighbours of what the first layer gives. Without stand-ins rows that are empty pull it to 0."""
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


def test_the_expectation_of_a_sampled_first_hop_is_exact() -> None:
    """E[z_v | v ∈ B] over all blocks of three of six nodes is the mean over all neighbours of v; its variance is
    ``theory.mean_field.row_variance``."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 0, 4, 5, 0], [1, 0, 2, 1, 3, 2, 4, 3, 4, 0, 0, 5]])
    torch.manual_seed(0)
    x = torch.randn(6, 3, dtype=torch.float64)
    x = (x - x.mean(0)).float()
    one = torch.zeros(6, dtype=torch.bool).index_fill(0, torch.tensor([0]), True)
    graph = hf.Graph.from_edge_index(edges, 6, x=x, y=torch.zeros(6, dtype=torch.long), train_mask=one, val_mask=~one)
    known = know(graph, hf.SAGE(3, 2, hidden=4, layers=2), hf.Settings(mean_field=LAMBDA))
    assert known.graph.x is not None
    rows = []
    for others in combinations(range(1, 6), 2):
        nodes = torch.tensor([0, *others])
        batch = known.make_batch(Sample(nodes, (induced_adjacency(graph, nodes.numpy()),), torch.tensor([0])))
        rows.append(batch.x[0, 3:])
    exact = known.graph.x[0, 3:6]
    torch.testing.assert_close(torch.stack(rows).mean(0), exact)
    around = x[edges[0][edges[1] == 0]]
    spread = around.var(0).sum()  # over the neighbours of node 0
    noise = (torch.stack(rows) - exact).square().sum(1).mean()
    torch.testing.assert_close(noise, row_variance(6, 3, len(around), LAMBDA) * spread)


def test_rows_that_lack_nothing_have_no_stand_in() -> None:
    graph = make_graph(60)
    model = hf.SAGE(8, 4, hidden=6, layers=3)
    known = know(graph, model, hf.Settings(first_hop="exact", mean_field=1.0))
    whole = known.make_batch(next(hf.FullGraph().sample(graph, 0, 0)))
    assert whole.num_nodes == graph.num_nodes
    part = known.make_batch(next(hf.RandomNodes(4).sample(graph, 0, 0)))
    assert part.num_nodes > 15
