"""PyG's loaders on our operators: what its Python makes of them, and workers that change no batch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.loader as pyg
from torch.utils.data import DataLoader
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphConv, SAGEConv, to_hetero
from torch_geometric.utils import subgraph, trim_to_layer

import handful.pyg as ours
from handful.pyg.enabling import SCHEMAS

LOADERS: dict[str, Callable[..., Any]] = {
    "NeighborLoader": lambda data, **o: ours.NeighborLoader(data, [3, 2], batch_size=16, shuffle=True, **o),
    "disjoint": lambda data, **o: ours.NeighborLoader(data, [3, 2], batch_size=16, disjoint=True, **o),
    "induced": lambda data, **o: ours.NeighborLoader(data, [3], batch_size=16, subgraph_type="induced", **o),
    "LinkNeighborLoader": lambda data, **o: ours.LinkNeighborLoader(
        data, [2], batch_size=40, neg_sampling="binary", shuffle=True, **o
    ),
    "ClusterLoader": lambda data, **o: ours.ClusterLoader(
        ours.ClusterData(data, 5, log=False), batch_size=2, shuffle=True, **o
    ),
    "GraphSAINT": lambda data, **o: ours.GraphSAINTRandomWalkSampler(
        data, 6, 2, num_steps=5, sample_coverage=2, log=False, **o
    ),
    "RandomNodeLoader": lambda data, **o: ours.RandomNodeLoader(data, 4, shuffle=True, **o),
    "LinkRandomNodeLoader": lambda data, **o: ours.LinkRandomNodeLoader(data, 4, shuffle=True, **o),
}


def make(n: int = 80, edges: int = 500) -> Data:
    rng = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, n, (2, edges), generator=rng)
    return Data(x=torch.randn(n, 4, generator=rng), edge_index=edge_index, edge_attr=torch.arange(edges))


def make_hetero() -> HeteroData:
    rng = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(50, 4, generator=rng), torch.randn(30, 4, generator=rng)
    for kind, (n, m) in {("a", "to", "b"): (50, 30), ("b", "of", "a"): (30, 50), ("a", "in", "a"): (50, 50)}.items():
        ends = [torch.randint(0, size, (200,), generator=rng) for size in (n, m)]
        data[kind].edge_index = torch.stack(ends)
    return data


def keep(batches: Iterable[Any]) -> list[Any]:
    return [batch.to_dict() for batch in batches]


def assert_same(one: Any, two: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, list):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            assert_same(left, right)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, two)
    else:
        assert one == two


@pytest.mark.parametrize("name", LOADERS)
def test_two_workers_give_the_batches_of_none(name: str) -> None:
    found = []
    for workers in (0, 2):
        torch.manual_seed(7)
        loader = LOADERS[name](make(), num_workers=workers)
        assert isinstance(loader, DataLoader)
        found.append([keep(loader), keep(loader)])
    assert_same(found[0], found[1])
    if name != "ClusterLoader":
        with pytest.raises(AssertionError):  # the second epoch is another one
            assert_same(found[0][0], found[0][1])


@pytest.mark.parametrize("name", LOADERS)
def test_copies_of_a_loader_give_its_batches(name: str) -> None:
    loader = LOADERS[name](make())
    found = []
    for one in (loader, copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        torch.manual_seed(7)
        found.append(keep(one))
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_edges_may_be_narrow_and_strided(name: str, dtype: torch.dtype) -> None:
    plain, other = make(), make()
    other.edge_index = other.edge_index.t().contiguous().t().to(dtype, memory_format=torch.preserve_format)
    assert not other.edge_index.is_contiguous()
    found = []
    for data in (plain, other):
        torch.manual_seed(7)
        found.append([batch.num_edges for batch in LOADERS[name](data)])
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_layers_of_narrow_ids(dtype: torch.dtype) -> None:
    data = make_hetero()
    for kind in data.edge_types:
        data[kind].edge_index = data[kind].edge_index.to(dtype)
    for batch in ours.HGTLoader(data, [6, 6], input_nodes="a", batch_size=10):
        batch.validate()


def test_a_number_of_nodes_may_be_a_tensor() -> None:
    data = Data(edge_index=make().edge_index, num_nodes=torch.tensor(80))
    assert len(keep(ours.GraphSAINTNodeSampler(data, 6, num_steps=3))) == 3


@pytest.mark.parametrize("name", ["NeighborLoader", "RandomNodeLoader"])
def test_workers_may_live_on_and_are_prepared(name: str) -> None:
    seen = []

    def prepare(worker: int) -> None:
        seen.append(worker)  # in the worker's own memory
        torch.zeros(1)

    loader = LOADERS[name](make(), num_workers=2, persistent_workers=True, worker_init_fn=prepare, prefetch_factor=1)
    assert len(keep(loader)) == len(keep(loader)) == len(loader)
    assert seen == []


@pytest.mark.parametrize("name", ["NeighborLoader", "RandomNodeLoader", "LinkNeighborLoader"])
def test_a_generator_decides(name: str) -> None:
    first, second, other = (
        keep(LOADERS[name](make(), generator=torch.Generator().manual_seed(seed))) for seed in (3, 3, 4)
    )
    assert_same(first, second)
    with pytest.raises(AssertionError):
        assert_same(first, other)


def test_the_loaders_leave_torchs_own_draws_alone() -> None:
    loader = LOADERS["NeighborLoader"](make())
    torch.manual_seed(0)
    for _ in loader:
        pass
    after = torch.rand(3)
    torch.manual_seed(0)
    for _ in loader:
        pass
    assert torch.equal(after, torch.rand(3))


def test_trimmed_layers_give_the_outputs_of_whole_ones() -> None:
    torch.manual_seed(0)
    convs = torch.nn.ModuleList(SAGEConv(4, 4) for _ in range(3))
    for batch in ours.NeighborLoader(make(), [3, 3, 3], batch_size=10):
        x = trimmed = batch.x
        edges = batch.edge_index
        for layer, conv in enumerate(convs):
            x = conv(x, batch.edge_index).relu()
            trimmed, edges, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, trimmed, edges)
            trimmed = conv(trimmed, edges).relu()
        torch.testing.assert_close(trimmed[:10], x[:10])


def test_all_neighbours_give_the_output_of_the_whole_graph_on_many_types() -> None:
    torch.manual_seed(0)
    data = make_hetero()

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = GraphConv((-1, -1), 8), GraphConv((-1, -1), 8)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x, edge_index).relu(), edge_index)  # type: ignore[no-any-return]

    model = to_hetero(Two(), data.metadata())
    whole = model(data.x_dict, data.edge_index_dict)["a"]
    seen = 0
    for batch in ours.NeighborLoader(data, [-1, -1], input_nodes="a", batch_size=20):
        out = model(batch.x_dict, batch.edge_index_dict)["a"][: batch["a"].batch_size]
        torch.testing.assert_close(out, whole[batch["a"].n_id[: batch["a"].batch_size]], rtol=1e-4, atol=1e-5)
        seen += batch["a"].batch_size
    assert seen == 50


def test_a_hetero_batch_is_a_piece_of_its_data() -> None:
    data = make_hetero()
    loaders = [
        ours.NeighborLoader(data, [4, 3], input_nodes="a", batch_size=10),
        ours.NeighborLoader(data, [2], input_nodes="b", batch_size=10, subgraph_type="induced"),
        ours.HGTLoader(data, [6, 6], input_nodes="a", batch_size=10),
        ours.LinkNeighborLoader(data, [2, 2], edge_label_index=("a", "to", "b"), batch_size=50),
    ]
    for loader in loaders:
        for batch in loader:
            batch.validate()
            for kind in data.node_types:
                assert torch.equal(batch[kind].x, data[kind].x[batch[kind].n_id])
            for kind in data.edge_types:
                rows = zip((kind[0], kind[2]), batch[kind].edge_index, strict=True)
                ends = torch.stack([batch[end].n_id[row] for end, row in rows])
                assert torch.equal(ends, data[kind].edge_index[:, batch[kind].e_id])


def test_an_induced_batch_has_all_edges_between_its_nodes() -> None:
    data = make()
    for batch in LOADERS["induced"](data):
        _, ids = subgraph(batch.n_id, data.edge_index, torch.arange(data.num_edges), num_nodes=80)
        assert sorted(batch.e_id.tolist()) == sorted(ids.tolist())


def test_clusters_cover_the_graph() -> None:
    data = make()
    data.n_id = torch.arange(80)
    clusters = ours.ClusterData(data, 4, log=False)
    assert torch.cat([part.n_id for part in clusters]).sort().values.tolist() == list(range(80))
    assert sum(batch.num_nodes for batch in ours.ClusterLoader(clusters, batch_size=2, shuffle=True)) == 80


def test_saints_norms_are_those_of_their_definition() -> None:
    data = make()
    torch.manual_seed(0)
    loader = ours.GraphSAINTRandomWalkSampler(data, 200, 3, num_steps=20, sample_coverage=30, log=False)
    # So many walks visit every node in nearly every subgraph: then node_norm is 1/N and edge_norm 1.
    batch = next(iter(loader))
    assert set(batch.keys()) == {"x", "edge_index", "edge_attr", "num_nodes", "node_norm", "edge_norm"}
    torch.testing.assert_close(batch.node_norm, torch.full_like(batch.node_norm, 1 / 80), rtol=0.4, atol=0)
    torch.testing.assert_close(batch.edge_norm, torch.ones_like(batch.edge_norm), rtol=0.4, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", LOADERS)
def test_workers_give_the_same_batches_however_they_are_started(name: str, start: str) -> None:
    found = []
    for workers in ({}, {"num_workers": 1, "multiprocessing_context": start}):
        torch.manual_seed(7)
        found.append(keep(LOADERS[name](make(), **workers)))
    assert_same(found[0], found[1])


@pytest.mark.slow
def test_spawned_workers_have_the_operators() -> None:
    loader = pyg.NeighborLoader(make(), [2], batch_size=40, num_workers=1, multiprocessing_context="spawn")
    assert len(keep(loader)) == 2


def test_the_page_names_every_operator_and_every_loader() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pyg.md").read_text(encoding="utf-8")
    for schema in SCHEMAS["pyg"]:
        assert f"`pyg::{schema.partition('(')[0]}`" in page
    for schema in SCHEMAS["torch_sparse"]:
        assert schema.partition("(")[0] in page
    public = [name for name, value in vars(ours).items() if callable(value) and not name.startswith("_")]
    assert "NeighborLoader" in public
    for name in public:
        assert name in page or f"…{name.removeprefix('GraphSAINT')}" in page
