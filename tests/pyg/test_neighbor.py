"""``NeighborLoader`` in PyG's place, against the definition of neighbour sampling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

from handful.errors import GraphError, SamplerError
from handful.kernels.threads import get_threads, set_threads
from handful.pyg import NeighborLoader
from pyg_data import any_data, assert_carried, make_data


@settings(deadline=None)  # the first example compiles
@given(any_data(), st.lists(st.integers(-1, 3), min_size=1, max_size=3), st.integers(1, 5), st.integers(0, 99))
def test_a_batch_is_what_the_definition_says(data: Data, fanout: list[int], batch_size: int, seed: int) -> None:
    loader = NeighborLoader(data, fanout, batch_size=batch_size, seed=seed)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert torch.cat([b.n_id[: b.batch_size] for b in batches]).tolist() == list(range(data.num_nodes))
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    for batch in batches:
        assert batch.n_id[: batch.batch_size].tolist() == batch.input_id.tolist()
        assert len(batch.n_id.unique()) == len(batch.n_id) == sum(batch.num_sampled_nodes) == batch.num_nodes
        assert len(batch.e_id.unique()) == len(batch.e_id) == sum(batch.num_sampled_edges) == batch.num_edges
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert "edge_weight" not in data or torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        hop_of = torch.repeat_interleave(torch.arange(len(fanout) + 1), torch.tensor(batch.num_sampled_nodes))
        edge_hop = torch.repeat_interleave(torch.arange(len(fanout)), torch.tensor(batch.num_sampled_edges))
        # An edge of hop k leads to a node that was new in hop k, and its source is known right after.
        assert torch.equal(hop_of[batch.edge_index[1]], edge_hop)
        assert (hop_of[batch.edge_index[0]] <= edge_hop + 1).all()
        got = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        for v, hop in enumerate(hop_of.tolist()):
            most = 0 if hop == len(fanout) else fanout[hop]
            have = int(degree[batch.n_id[v]])
            assert int(got[v]) == (have if most == -1 else min(most, have))


def test_every_attribute_is_carried() -> None:
    data = make_data()
    for batch in NeighborLoader(data, [3, 2], batch_size=7, shuffle=True, seed=0):
        assert_carried(data, batch)


def test_all_neighbours_are_the_k_hop_subgraph() -> None:
    data = make_data(60, 120)
    for batch in NeighborLoader(data, [-1, -1], batch_size=4, seed=0):
        nodes, *_ = k_hop_subgraph(batch.n_id[:4], 2, data.edge_index, num_nodes=60)
        assert sorted(batch.n_id.tolist()) == nodes.tolist()


def test_seeds_see_what_they_see_in_the_whole_graph() -> None:
    """With all neighbours, two layers give the seeds their full-graph output, trimmed layer by layer or not."""
    data = make_data(60, 200)
    torch.manual_seed(0)
    layers = [SAGEConv(5, 8), SAGEConv(8, 3)]

    def run(x: torch.Tensor, edge_index: torch.Tensor, batch: Any = None) -> torch.Tensor:
        for i, layer in enumerate(layers):
            if batch is not None:
                x, edge_index, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = layer(x, edge_index).relu()
        return x

    whole = run(data.x, data.edge_index)
    for batch in NeighborLoader(data, [-1, -1], batch_size=16, seed=0):
        seeds = batch.n_id[: batch.batch_size]
        for out in (run(batch.x, batch.edge_index), run(batch.x, batch.edge_index, batch)):
            torch.testing.assert_close(out[: batch.batch_size], whole[seeds])


def test_every_neighbour_is_equally_likely() -> None:
    star = Data(edge_index=torch.tensor([[1, 2, 3, 4, 5, 6], [0] * 6]), num_nodes=7)
    loader = NeighborLoader(star, [2], input_nodes=torch.tensor([0]), seed=0)
    seen = torch.zeros(6)
    draws = 4_000
    for epoch in range(draws):
        (batch,) = loader.batches(epoch)
        seen[batch.e_id] += 1
    assert ((seen - draws / 3) / (draws * 2 / 9) ** 0.5).abs().max() < 4


def test_input_nodes_as_mask_or_ids() -> None:
    data = make_data()
    ids = data.train_mask.nonzero().squeeze(1)
    by_mask = NeighborLoader(data, [2], input_nodes=data.train_mask, batch_size=4, shuffle=True, seed=1)
    by_ids = NeighborLoader(data, [2], input_nodes=ids, batch_size=4, shuffle=True, seed=1)
    seeds = []
    for a, b in zip(by_mask, by_ids, strict=True):
        assert torch.equal(a.n_id, b.n_id)
        assert torch.equal(ids[a.input_id], a.n_id[: a.batch_size])
        seeds += a.n_id[: a.batch_size].tolist()
    assert sorted(seeds) == ids.tolist()
    assert seeds != ids.tolist()


def test_epochs_and_threads() -> None:
    data, before = make_data(400, 4000), get_threads()

    def two_epochs() -> list[list[list[int]]]:
        loader = NeighborLoader(data, [5, 5], batch_size=64, shuffle=True, seed=0)
        return [[b.e_id.tolist() for b in loader] for _ in range(2)]

    try:
        set_threads(1)
        alone = two_epochs()
        assert alone[0] != alone[1]
        for threads in (2, 3):
            set_threads(threads)
            assert two_epochs() == alone
    finally:
        set_threads(before)


def test_drop_last_and_transform() -> None:
    data = make_data(10, 30)
    assert [b.batch_size for b in NeighborLoader(data, [1], batch_size=4)] == [4, 4, 2]
    short = NeighborLoader(data, [1], batch_size=4, drop_last=True, transform=lambda batch: batch.batch_size)
    assert len(short) == 2
    assert list(short) == [4, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replace": True}, "replace=False alone"),
        ({"subgraph_type": "induced"}, "subgraph_type='directional' alone"),
        ({"disjoint": True}, "disjoint=False alone"),
        ({"weight_attr": "edge_weight"}, "weight_attr=None alone"),
        ({"batchsize": 3}, "no option 'batchsize'"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"num_neighbors": []}, "num_neighbors takes whole numbers"),
        ({"num_neighbors": [-2]}, "or -1 for all"),
        ({"num_neighbors": {"a": [1]}}, "num_neighbors takes whole numbers"),
        ({"input_nodes": torch.tensor([0, 10])}, r"input_nodes\[1\] is node 10"),
        ({"input_nodes": torch.tensor([3, 3])}, "twice"),
        ({"input_nodes": torch.zeros(4, dtype=torch.bool)}, "a mask of 10 nodes"),
        ({"input_nodes": torch.zeros(4)}, "a vector of ids"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError, match=message):
        NeighborLoader(make_data(10, 30), **{"num_neighbors": [2], **options})


def test_what_pyg_takes_by_default_is_taken_and_hetero_data_is_not() -> None:
    NeighborLoader(make_data(10, 30), [2], replace=False, directed=True, subgraph_type="directional", num_workers=0)
    with pytest.raises(GraphError, match="to_homogeneous"):
        NeighborLoader(HeteroData(), [2])  # type: ignore[arg-type]
