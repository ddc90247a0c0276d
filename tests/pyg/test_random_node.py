"""``RandomNodeLoader`` gives PyG's batches bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, SubsetRandomSampler
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import RandomNodeLoader as PyGRandomNodeLoader

from handful.errors import GraphError, SamplerError
from handful.pyg import LinkRandomNodeLoader, RandomNodeLoader, edge_share
from pyg_data import any_data, make_data


def make_hetero() -> HeteroData:
    rng = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["a"].x = torch.randn(30, 2, generator=rng)
    data["b"].num_nodes = 41
    data["b"].title = "of all"
    for kind, (n, m) in {("a", "to", "b"): (30, 41), ("b", "of", "a"): (41, 30), ("b", "in", "b"): (41, 41)}.items():
        ends = [torch.randint(0, size, (120,), generator=rng) for size in (n, m)]
        data[kind].edge_index = torch.stack(ends)
    data["a", "to", "b"].weight = torch.rand(120, generator=rng)
    return data


def for_pyg() -> Data:
    data = make_data(n=41)
    del data.table  # numpy arrays are more than PyG's own subgraph takes
    return data


def assert_same(one: Any, two: Any) -> None:
    assert len(one.stores) == len(two.stores)
    for ours, theirs in zip(one.stores, two.stores, strict=True):
        assert list(ours.keys()) == list(theirs.keys())
        for key, value in ours.items():
            same = torch.equal(value, theirs[key]) if isinstance(value, torch.Tensor) else value == theirs[key]
            assert same, key


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shuffled": {"shuffle": True},
    "dropped": {"shuffle": True, "drop_last": True},
    "workers": {"shuffle": True, "num_workers": 2},
    "sampler": {"sampler": SubsetRandomSampler(range(0, 40, 2))},
    "ranks": {"sampler": DistributedSampler(range(41), num_replicas=2, rank=1)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("hetero", [False, True])
def test_batches_are_pygs_bit_for_bit(options: dict[str, Any], hetero: bool) -> None:
    data = make_hetero() if hetero else for_pyg()
    epochs, after = [], []
    for loader in (RandomNodeLoader, PyGRandomNodeLoader):
        torch.manual_seed(5)
        made = loader(data, 7, **options)
        epochs.append([batch for _ in range(2) for batch in made])
        after.append((len(made), torch.rand(1)))
    assert after[0] == after[1]
    assert len(epochs[0]) == len(epochs[1])
    for one, two in zip(*epochs, strict=True):
        assert_same(one, two)


@settings(deadline=None, max_examples=40)  # the first example compiles
@given(any_data(), st.integers(1, 12), st.integers(0, 1000))
def test_any_graph_is_cut_as_pyg_cuts_it(data: Data, m: int, seed: int) -> None:
    found = []
    for loader in (RandomNodeLoader, PyGRandomNodeLoader):
        draws = torch.Generator().manual_seed(seed)
        made = loader(data, min(m, data.num_nodes), shuffle=True, generator=draws)
        found.append([*made, *made])
    for one, two in zip(*found, strict=True):
        assert_same(one, two)


def test_ids_are_there_if_asked_for() -> None:
    data = make_data()
    for batch in RandomNodeLoader(data, 3, return_ids=True, shuffle=True):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert np.array_equal(batch.table, data.table[batch.n_id.numpy()])
    hetero = next(iter(RandomNodeLoader(make_hetero(), 3, return_ids=True, shuffle=True)))
    kind = ("a", "to", "b")
    assert torch.equal(hetero[kind].weight, make_hetero()[kind].weight[hetero[kind].e_id])


@pytest.mark.parametrize("parts", [2, 7])
@pytest.mark.parametrize("hetero", [False, True])
def test_memory_may_move_between_epochs_and_within_one(hetero: bool, parts: int) -> None:
    """``share_memory_`` frees the memory that a tensor had: no array may still point there."""
    data = make_hetero() if hetero else for_pyg()
    wanted = list(PyGRandomNodeLoader(data, parts))
    loader = RandomNodeLoader(data, parts)
    for _ in range(2):
        moving = iter(loader)
        for k, batch in enumerate(wanted):
            if k == 1:
                data.share_memory_()
                junk = [torch.randint(10**9, edges.shape) for edges in data.edge_index_dict.values()] if hetero else []
                junk += [torch.randint(10**9, (2, 300)) for _ in range(3)]
            assert_same(next(moving), batch)
        data = data.clone()
        loader.data = data


@pytest.mark.parametrize("hetero", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_new_edges_are_seen_as_pyg_sees_them(hetero: bool, workers: int) -> None:
    data = make_hetero() if hetero else for_pyg()
    loaders = [kind(data, 3, num_workers=workers) for kind in (RandomNodeLoader, PyGRandomNodeLoader)]
    store: Any = data["a", "to", "b"] if hetero else data
    for step in (1, 2):
        store.edge_index = store.edge_index[:, ::step]
        for key in ("weight",) if hetero else ("edge_attr", "edge_weight"):
            store[key] = store[key][::step]
        for one, two in zip(*loaders, strict=True):
            assert_same(one, two)
    store.edge_index[0, 5] = 99
    with pytest.raises(GraphError, match=r"edge 5.* has the end 99"):
        list(RandomNodeLoader(data, 3)) if workers else list(loaders[0])


def test_attributes_of_other_edges_are_refused() -> None:
    data = for_pyg()
    loader = RandomNodeLoader(data, 3)
    list(loader)
    data.edge_index = data.edge_index[:, ::2]
    with pytest.raises(GraphError, match=r"edge_attr has 300 entries for 150 edges"):
        list(loader)


def test_a_sparse_matrix_beside_the_edges_stays_as_it_is() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, adj_t=torch.eye(3).to_sparse())
    for one, two in zip(RandomNodeLoader(data, 2), PyGRandomNodeLoader(data, 2), strict=True):
        assert torch.equal(one.edge_index, two.edge_index)
        assert one.adj_t is two.adj_t is data.adj_t


def test_a_loader_is_a_data_loader_with_pygs_attributes() -> None:
    data = for_pyg()
    ours, theirs = RandomNodeLoader(data, 4), PyGRandomNodeLoader(data, 4)
    assert isinstance(ours, DataLoader)
    assert (ours.num_parts, ours.num_nodes, ours.batch_size) == (theirs.num_parts, theirs.num_nodes, theirs.batch_size)
    assert ours.data is data
    assert ours.edge_index is data.edge_index
    assert_same(ours.collate_fn([3, 1, 2]), theirs.collate_fn([3, 1, 2]))
    # Lightning makes loaders anew from these.
    again = RandomNodeLoader(data, 4, dataset=ours.dataset, batch_size=3, collate_fn=None, sampler=ours.sampler)
    assert len(again) == len(ours)


def test_what_cannot_be_cut_is_refused() -> None:
    data = for_pyg()
    for parts in (0, 42):
        with pytest.raises(SamplerError, match="between 1 and the number of nodes, 41"):
            RandomNodeLoader(data, parts)
    with pytest.raises(GraphError, match=r"edge 1 has the end 9: node ids run from 0 to 2"):
        RandomNodeLoader(Data(edge_index=torch.tensor([[0, 9], [1, 1]]), num_nodes=3), 1)
    hetero = make_hetero()
    hetero["a", "to", "b"].edge_index[1, 4] = 41
    with pytest.raises(GraphError, match=r"edge 4 of type \('a', 'to', 'b'\) has the end 41"):
        RandomNodeLoader(hetero, 2)
    with pytest.raises(GraphError, match="takes a Data or HeteroData, got list"):
        RandomNodeLoader([], 1)  # type: ignore[arg-type]
    with pytest.raises(SamplerError, match="a node twice"):
        RandomNodeLoader(data, 2).collate_fn([1, 1])
    with pytest.raises(GraphError, match="sparse matrix"):
        RandomNodeLoader(Data(adj_t=torch.eye(3).to_sparse(), num_nodes=3), 1)


@pytest.mark.parametrize(("n", "m"), [(4, 2), (5, 2), (6, 3), (5, 4)])
def test_how_often_an_edge_is_seen_by_enumeration(n: int, m: int) -> None:
    size = -(-n // m)
    seen = total = 0
    for order in itertools.permutations(range(n)):
        total += 1
        seen += order.index(0) // size == order.index(1) // size
    assert edge_share(n, m) == pytest.approx(seen / total)
    assert edge_share(1, 1) == 0  # there is no edge between two nodes


def test_links_are_inside_the_part_and_negatives_are_no_edges() -> None:
    torch.manual_seed(0)
    data = Data(x=torch.eye(30), edge_index=torch.unique(torch.randint(30, (2, 200)), dim=1))
    edges = set(map(tuple, data.edge_index.T.tolist()))
    seen = 0
    for batch in LinkRandomNodeLoader(data, num_parts=3, shuffle=True, return_ids=True):
        pairs = [tuple(pair) for pair in batch.n_id[batch.edge_label_index].T.tolist()]
        wanted = {(u, v) for u, v in edges if {u, v} <= set(batch.n_id.tolist())}
        assert {pair for pair, label in zip(pairs, batch.edge_label.tolist(), strict=True) if label} == wanted
        negatives = [pair for pair, label in zip(pairs, batch.edge_label.tolist(), strict=True) if not label]
        assert negatives
        assert all(u != v and (u, v) not in edges for u, v in negatives)
        seen += len(wanted)
    assert 0 < seen < len(edges)


@pytest.mark.slow
def test_negatives_of_narrow_ids_are_no_edges() -> None:
    """300 · 300 is no int16: pairs of ids are compared as int64."""
    rows, cols = torch.where(torch.rand(300, 300, generator=torch.Generator().manual_seed(0)) < 0.5)
    data = Data(edge_index=torch.stack([rows, cols]).to(torch.int16), num_nodes=300)
    (batch,) = LinkRandomNodeLoader(data, num_parts=1)
    edges = set(map(tuple, data.edge_index.T.tolist()))
    negatives = batch.edge_label_index[:, batch.edge_label == 0].T.tolist()
    assert negatives
    assert edges.isdisjoint(map(tuple, negatives))


def test_links_of_several_types_are_refused() -> None:
    data = HeteroData()
    data["a"].num_nodes = 4
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(GraphError, match="which links"):
        next(iter(LinkRandomNodeLoader(data, num_parts=1)))
