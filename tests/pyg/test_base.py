"""What all loaders share, seen through ``RandomNodeLoader``, and the cutting of batches."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from handful.errors import GraphError, SamplerError
from handful.pyg import RandomNodeLoader
from handful.pyg.base import carry, check_loader_options, compressed_data, compressed_edges
from pyg_data import assert_carried, assert_induced, make_data


@pytest.mark.parametrize("by_source", [False, True])
def test_compressed_edges_are_the_edge_index_in_another_order(by_source: bool) -> None:
    edges = torch.randint(0, 9, (2, 50), generator=torch.Generator().manual_seed(0))
    graph, order = compressed_edges(edges, 9, with_order=True, by_source=by_source)
    row, column = (0, 1) if by_source else (1, 0)
    assert sorted(order.tolist()) == list(range(50))
    assert torch.equal(graph.edge_index[0], edges[column, order])
    assert torch.equal(graph.edge_index[1], edges[row, order])
    pairs = list(zip(*edges[[row, column]][:, order].tolist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize("by_source", [False, True])
def test_batches_cut_from_a_data(by_source: bool) -> None:
    data = make_data()
    source = compressed_data("a test", data, by_source=by_source)
    part = np.arange(40) % 3
    for k, batch in enumerate(source.parts(part, 3)):
        assert batch.n_id.tolist() == np.flatnonzero(part == k).tolist()
        assert_induced(data, batch)
        assert_carried(data, batch)
    batch = source.induced(np.array([7, 3, 30]))
    assert batch.n_id.tolist() == [7, 3, 30]
    assert_induced(data, batch)
    assert_carried(data, batch)


def test_carry_leaves_what_belongs_to_the_graph() -> None:
    data = make_data()
    out = Data()
    carry(data, data._store, out._store, torch.tensor([5, 2]), torch.tensor([9]))
    assert torch.equal(out.x, data.x[[5, 2]])
    assert torch.equal(out.edge_attr, data.edge_attr[[9]])
    assert (out.n_id.tolist(), out.e_id.tolist()) == ([5, 2], [9])
    assert "graph_level" not in out


def test_a_fixed_option_has_one_value() -> None:
    check_loader_options("A", {"replace": False}, {"replace": False})
    with pytest.raises(SamplerError, match="A knows replace=False alone, got True"):
        check_loader_options("A", {"replace": True}, {"replace": False})


def test_every_pass_is_a_new_epoch_of_the_seed() -> None:
    def passes(loader: RandomNodeLoader, count: int) -> list[list[list[int]]]:
        return [[batch.n_id.tolist() for batch in loader] for _ in range(count)]

    data = make_data()
    first = passes(RandomNodeLoader(data, 4, seed=3), 3)
    assert first == passes(RandomNodeLoader(data, 4, seed=3), 3)
    assert first[0] != first[1] != first[2]
    assert first != passes(RandomNodeLoader(data, 4, seed=4), 3)
    resumed = RandomNodeLoader(data, 4, seed=3)
    resumed.epoch = 2
    assert passes(resumed, 1) == first[2:]


def test_without_a_seed_torch_decides() -> None:
    def deal(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return [batch.n_id.tolist() for batch in RandomNodeLoader(make_data(), 4)]

    assert deal(0) == deal(0)
    assert deal(0) != deal(1)


def test_leaving_a_pass_early_stops_its_thread() -> None:
    loader = RandomNodeLoader(make_data(), 8)
    passing = iter(loader)
    next(passing)
    passing.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name == "handful-prefetch"]
    assert len(list(loader)) == 8


def test_the_users_own_ids_are_kept_and_the_data_is_not_touched() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), x=torch.zeros(4, 1))
    data.n_id = torch.tensor([10, 11, 12, 13])
    data.e_id = torch.tensor([7, 8, 9])
    keys, loader = set(data.keys()), RandomNodeLoader(data, 1, seed=0)
    data.x = torch.ones(3, 3)  # what changes after the loader was made does not reach it
    (batch,) = loader
    assert batch.n_id.tolist() == [10, 11, 12, 13]
    assert batch.e_id.tolist() == [9, 7, 8]
    assert batch.x.shape == (4, 1)
    assert set(data.keys()) == keys


def test_pygs_own_edge_index_class_works() -> None:
    data = make_data()
    plain = RandomNodeLoader(data, 2, seed=0)
    data.edge_index = EdgeIndex(data.edge_index, sparse_size=(40, 40))
    for a, b in zip(plain, RandomNodeLoader(data, 2, seed=0), strict=True):
        assert torch.equal(a.edge_index, b.edge_index)


def test_options_of_a_data_loader_are_accepted_and_named() -> None:
    data = make_data(6, 10)
    with pytest.warns(UserWarning, match=r"ignores num_workers, pin_memory") as caught:
        RandomNodeLoader(data, 2, num_workers=4, pin_memory=True)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RandomNodeLoader(data, 2, num_workers=0, pin_memory=False)


def test_wrong_data_is_refused() -> None:
    good = make_data(6, 10)
    broken = make_data(6, 10)
    broken.edge_index[0, 3] = 6
    negative = make_data(6, 10)
    negative.edge_index[1, 0] = -1
    flat = make_data(6, 10)
    flat.edge_index = torch.tensor([1, 2])
    sparse = make_data(6, 10)
    sparse.adj_t = torch.eye(6).to_sparse_coo()
    for data, message in (
        (broken, "edge 3 has source 6"),
        (negative, "edge 0 has target -1"),
        (sparse, "adj_t"),
        (Data(x=good.x), "no edge_index"),
        ("cora", "got str"),
    ):
        with pytest.raises(GraphError, match=message):
            RandomNodeLoader(data, 2)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="shape"):
        RandomNodeLoader(flat, 2)


def test_options_that_change_batches_are_refused() -> None:
    data = make_data(6, 10)
    with pytest.raises(SamplerError, match="seed="):
        RandomNodeLoader(data, 2, generator=torch.Generator())
    with pytest.raises(SamplerError, match="did you mean num_workers"):
        RandomNodeLoader(data, 2, num_worker=3)
