"""Any model is called in one way, and all that a step draws comes from its seed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GraphConv, GraphSAGE

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.errors import HandfulError
from handful.training.inference import infer
from handful.training.module import average_edges, logits_of, seed_step, takes_batch
from small import dense_mean, full_batch, small_sage


class OnBatches(nn.Module):
    """A module of one's own that wants to see the batch."""

    takes_batch = True

    def forward(self, batch: Batch) -> Tensor:
        return batch.x * batch.num_nodes


def test_who_takes_a_batch(graph: hf.Graph) -> None:
    assert takes_batch(small_sage(graph))
    assert takes_batch(OnBatches())
    assert not takes_batch(GraphSAGE(4, 4, 1, 4))
    batch = full_batch(graph)
    assert torch.equal(logits_of(OnBatches(), batch), batch.x * graph.num_nodes)


@pytest.mark.parametrize("sampler", [hf.RandomNodes(2), hf.Neighbors((3, 2), 20)])
def test_a_pyg_module_sees_features_and_edges_of_all_that_was_sampled(sampler: hf.Sampler) -> None:
    graph = make_graph(60)
    graph = graph.replace(x=graph.x.to(torch.float16))
    model = GraphSAGE(graph.num_features, 8, 2, 4).eval()
    for batch in sampler.epoch(graph, 0, 0):
        edges = torch.cat([layer.edge_index for layer in batch.layers], 1).unique(dim=1)
        expected = model(graph.x[batch.nodes].float(), edges)
        torch.testing.assert_close(logits_of(model, batch), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["handful", "pyg"])
def test_the_seed_draws_the_dropout(graph: hf.Graph, kind: str) -> None:
    model = small_sage(graph) if kind == "handful" else GraphSAGE(graph.num_features, 8, 2, 4, dropout=0.5)
    batch, found = full_batch(graph), []
    for seed in (3, 3, 4):
        seed_step(model, seed)
        found.append(logits_of(model, batch))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert hasattr(model, "step_seed") == (kind == "handful")


class Weighted(nn.Module):
    """Takes weights, and needs them."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv = GraphConv(features, 4)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.conv(x, edge_index, edge_weight)  # type: ignore[no-any-return]


class Featured(Weighted):
    """Takes them as features of edges."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, edge_index, torch.ones(edge_index.shape[1]) if edge_attr is None else edge_attr)


def weighted_graph() -> hf.Graph:
    graph = make_graph(60)
    pairs = graph.edge_index.sort(0).values
    return graph.replace(edge_weight=1.0 + (pairs[0] * 7 + pairs[1]) % 5)  # the same in both directions


@pytest.mark.parametrize("module", [Weighted, Featured])
def test_weights_reach_a_module_that_takes_them(module: type[Weighted]) -> None:
    graph = weighted_graph()
    model = module(graph.num_features)
    for batch in hf.RandomNodes(2).epoch(graph, 0, 0):
        edges = batch.layers[0]
        expected = model.conv(batch.x, edges.edge_index, edges.weight)
        torch.testing.assert_close(logits_of(model, batch), expected)
    torch.testing.assert_close(infer(model, graph), model.conv(graph.x, graph.edge_index, graph.edge_weight))


@pytest.mark.parametrize("module", [Weighted, Featured])
def test_without_weights_an_edge_counts_once(module: type[Weighted]) -> None:
    graph = make_graph(60)
    model = module(graph.num_features)
    torch.testing.assert_close(infer(model, graph), model.conv(graph.x, graph.edge_index))


def test_a_module_without_weights_is_refused_where_they_matter() -> None:
    graph, plain = weighted_graph(), make_graph(60)
    normalised = hf.RandomWalks(10, 2, normalize=True, coverage=2)
    sage, gcn = GraphSAGE(graph.num_features, 8, 2, 4), GCN(graph.num_features, 8, 2, 4)
    featured = Featured(graph.num_features)
    for on, sampler, model in (
        (graph, hf.RandomNodes(2), sage),
        (plain, normalised, sage),
        (plain, normalised, featured),
    ):
        with pytest.raises(HandfulError, match=f"have weights, and {type(model).__name__}.forward takes no"):
            hf.fit(model, on, sampler, epochs=1)
    logits_of(gcn, next(hf.RandomNodes(2).epoch(graph, 0, 0)))
    logits_of(GAT(graph.num_features, 8, 2, 4, edge_dim=1), next(hf.RandomNodes(2).epoch(graph, 0, 0)))


def test_no_layer_is_given_the_edges_of_another() -> None:
    graph = make_graph(60)
    for model in (GCN(graph.num_features, 8, 2, 4), Weighted(graph.num_features)):
        with pytest.raises(HandfulError, match="LADIES cannot train"):
            hf.fit(model, graph, hf.Ladies(budget=(20, 20), batch_size=20), epochs=1)


@pytest.mark.parametrize("graph", [make_graph(60), weighted_graph(), make_graph(60, undirected=False, weighted=True)])
def test_after_normalised_walks_the_whole_graph_is_averaged(graph: hf.Graph) -> None:
    """Σ_u a_vu·x_u / d_v with d_v = Σ_u a_vu, as dense matrices; the same mean that handful's own SAGE takes."""
    model = Weighted(graph.num_features)
    sampler = hf.RandomWalks(30, 2, normalize=True, coverage=3)
    hf.fit(model, graph, sampler, epochs=1)
    conv = model.conv
    with torch.no_grad():
        mean = dense_mean(graph) @ graph.x
        expected = conv.lin_rel(mean) + conv.lin_root(graph.x)
        batch = average_edges(next(iter(hf.FullGraph().epoch(graph, 0, 0))))
    torch.testing.assert_close(infer(model, graph, sampler=sampler), expected)
    torch.testing.assert_close(batch.layers[0].mean(graph.x), mean)
