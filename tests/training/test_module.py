"""Any model is called in one way, and all that a step draws comes from its seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    LINKX,
    GATConv,
    GCNConv,
    GraphConv,
    GraphSAGE,
    Polynormer,
    RGCNConv,
    SGConv,
    SGFormer,
    TransformerConv,
)

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.errors import HandfulError
from handful.training.inference import infer
from handful.training.module import all_edges, average_edges, logits_of, seed_step
from small import dense_mean, full_batch, small_sage


class OnBatches(nn.Module):
    """A module of one's own that wants to see the batch."""

    takes_batch = True

    def forward(self, batch: Batch) -> Tensor:
        return batch.x * batch.num_nodes


def test_a_module_may_take_the_batch(graph: hf.Graph) -> None:
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


class Wrapped(nn.Module):
    """A convolution with whatever it is asked for."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)  # type: ignore[no-any-return]


class Pair(Wrapped):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index), x  # type: ignore[return-value]


class OfData(Wrapped):
    def forward(self, data: object) -> Tensor:  # type: ignore[override]
        return self.conv(data.x, data.edge_index)  # type: ignore[attr-defined, no-any-return, operator]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda f: Wrapped(GCNConv(f, 4, cached=True)), "GCNConv keeps the edges of its first batch"),
        (lambda f: Wrapped(SGConv(f, 4, cached=True)), "SGConv keeps the edges"),
        (lambda f: Pair(GCNConv(f, 4)), "Pair.forward gives a tuple"),
        (lambda f: GATConv(f, 4), None),
        (lambda f: RGCNConv(f, 4, 2), r"RGCNConv.forward asks for \(x, edge_index, edge_type\)"),
        (lambda f: OfData(GCNConv(f, 4)), None),
        (lambda f: LINKX(60, f, 8, 4, 1), "LINKX has weights for each of 60 nodes, and this batch has 30"),
        (lambda f: SGFormer(f, 8, 4), None),
        (lambda f: Polynormer(f, 8, 4, local_layers=1, global_layers=1), None),
    ],
)
def test_pygs_modules_train_or_are_refused_by_name(make: Callable[[int], nn.Module], told: str | None) -> None:
    graph = make_graph(60)
    model = make(graph.num_features)
    if told is None:
        hf.fit(model, graph, hf.RandomNodes(2), epochs=1)
    else:
        with pytest.raises(HandfulError, match=told):
            hf.fit(model, graph, hf.RandomNodes(2), epochs=1)


def test_a_model_with_weights_for_each_node_trains_on_the_full_graph() -> None:
    graph = make_graph(60)
    hf.fit(LINKX(60, graph.num_features, 8, 4, 1), graph, hf.FullGraph(), epochs=1)


@pytest.mark.parametrize("module", [GAT, GATConv])
def test_attention_without_edge_features_is_refused_where_weights_matter(module: type[nn.Module]) -> None:
    graph = weighted_graph()
    size = (graph.num_features, 8, 2, 4) if module is GAT else (graph.num_features, 4)
    with pytest.raises(HandfulError, match=r"have weights, and GAT.*takes no"):
        hf.fit(module(*size), graph, hf.RandomNodes(2), epochs=1)
    hf.fit(module(*size, edge_dim=1), graph, hf.RandomNodes(2), epochs=1)


def test_features_of_edges_are_a_matrix() -> None:
    graph = weighted_graph()
    model = TransformerConv(graph.num_features, 4, edge_dim=1)
    batch = next(hf.RandomNodes(2).epoch(graph, 0, 0))
    edges = batch.layers[0]
    assert edges.weight is not None
    expected = model(batch.x, edges.edge_index, edges.weight[:, None])
    torch.testing.assert_close(logits_of(model, batch), expected)


def with_edge_features(width: int = 3, repeated: bool = False) -> hf.Graph:
    """A graph whose edges have features that name their ends, and their number among repeated edges."""
    graph = make_graph(60, undirected=False).coalesce()
    edges = graph.edge_index
    copies = torch.zeros(edges.shape[1])
    if repeated:
        edges, copies = torch.cat([edges, edges[:, ::2]], 1), torch.cat([copies, torch.ones((len(copies) + 1) // 2)])
    attr = torch.stack([edges[0].float(), edges[1].float(), copies], 1)[:, :width]
    fields = {n: getattr(graph, n) for n in ("x", "y", "train_mask", "val_mask", "test_mask")}
    shuffled = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(0))
    return hf.Graph.from_edge_index(edges[:, shuffled], 60, edge_attr=attr[shuffled], **fields)


SAMPLERS = [
    hf.FullGraph(),
    hf.RandomNodes(3),
    hf.Clusters(4, per_batch=2),
    hf.RandomWalks(),
    hf.Neighbors(),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_every_edge_of_a_batch_has_its_own_features(sampler: hf.Sampler) -> None:
    graph = with_edge_features()
    for batch in sampler.epoch(graph, 0, 0):
        assert batch.edge_attr is not None
        assert torch.equal(batch.edge_attr[:, :2].T.long(), batch.nodes[all_edges(GCN(1, 1, 1), batch).edge_index])


def test_of_repeated_edges_each_has_its_own_features() -> None:
    graph = with_edge_features(repeated=True)
    for batch in hf.RandomNodes(3).epoch(graph, 0, 0):
        assert batch.edge_attr is not None
        rows = {tuple(row) for row in batch.edge_attr.tolist()}
        assert len(rows) == len(batch.edge_attr) > 0
        assert torch.equal(batch.edge_attr[:, :2].T.long(), batch.nodes[batch.layers[0].edge_index])
    with pytest.raises(hf.SamplerError, match="some of several edges"):
        list(hf.Neighbors(fanout=(1, 1)).epoch(graph, 0, 0))


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GATConv(8, 4, edge_dim=3)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.edge_index, data.edge_attr)  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [lambda: GATConv(8, 4, edge_dim=3), lambda: GAT(8, 8, 2, 4, edge_dim=3), Whole])
def test_features_of_edges_reach_training_and_evaluation(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    graph = with_edge_features()
    graph = graph.replace(edge_attr=graph.edge_attr / 60)
    hf.save(graph, tmp_path / "g")
    model = make()
    hf.fit(model, hf.open_graph(tmp_path / "g"), hf.RandomNodes(3), epochs=2)
    x, edges = graph.x, graph.edge_index
    data = Data(x=x, edge_index=edges, edge_attr=graph.edge_attr)
    model.eval()
    expected = model(data) if isinstance(model, Whole) else model(x, edges, edge_attr=graph.edge_attr)
    torch.testing.assert_close(infer(model, graph), expected)


def test_edge_types_are_features_of_width_one() -> None:
    graph = with_edge_features()
    kinds = (graph.edge_attr[:, 0] % 2).long()
    data = hf.to_pyg(graph.replace(edge_attr=None))
    data.edge_type = kinds
    graph, model = hf.from_pyg(data), RGCNConv(8, 4, 2)
    hf.fit(model, graph, hf.RandomNodes(3), epochs=1)
    torch.testing.assert_close(infer(model, graph), model(data.x, data.edge_index, kinds))


@pytest.mark.parametrize(
    "model", [GCN(8, 8, 2, 4), GAT(8, 8, 2, 4), hf.SAGE(8, 4, hidden=8, layers=2), RGCNConv(8, 4, 2)]
)
def test_features_of_edges_are_never_left_out_in_silence(model: nn.Module) -> None:
    with pytest.raises(HandfulError, match="edge_attr") as error:
        hf.fit(model, with_edge_features(), hf.RandomNodes(3), epochs=1)
    assert "\n" not in str(error.value)


class Learned(nn.Module):
    """Weighs edges by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.score = GraphConv(8, 3), nn.Linear(8, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index, self.score(x[edge_index[0]]).squeeze(1))


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize(
    ("make", "fuses"),
    [
        (lambda: GraphSAGE(8, 8, 2, 3), True),
        (lambda: GraphSAGE(8, 8, 2, 3, aggr="max"), False),
        (lambda: GraphSAGE(8, 8, 2, 3, aggr="sum", project=True), True),
        (lambda: GCN(8, 8, 2, 3), None),
        (lambda: GIN(8, 8, 2, 3), True),
        (lambda: GAT(8, 8, 2, 3), False),
        (lambda: GraphConv(8, 3), True),
        (Learned, False),
    ],
)
def test_convolutions_are_products_where_these_are_the_same(
    make: Callable[[], nn.Module], fuses: bool | None, loops: bool
) -> None:
    torch.manual_seed(0)
    graph = make_graph(40, classes=3)
    edges = graph.edge_index
    edges = torch.cat([edges[:, edges[0] != edges[1]], torch.arange(5).repeat(2, 1)[:, : 5 * loops]], 1)
    graph = hf.Graph.from_edge_index(edges, 40, x=graph.x, y=graph.y, train_mask=graph.train_mask)
    batch, model = full_batch(graph), make()
    x = batch.x.clone().requires_grad_()
    expected = model(x, batch.layers[0].edge_index)
    seen = []
    for layer in model.modules():
        if hasattr(layer, "message_and_aggregate"):
            layer.register_propagate_forward_pre_hook(lambda _, given: seen.append(given[0].layout))
    out = logits_of(model, replace(batch, x=x))
    assert (torch.sparse_csr in seen) == (not loops if fuses is None else fuses)
    torch.testing.assert_close(out, expected)
    weigh = torch.randn_like(out)
    one, other = (torch.autograd.grad((logits * weigh).sum(), x)[0] for logits in (out, expected))
    torch.testing.assert_close(one, other)
