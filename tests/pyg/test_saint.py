"""``GraphSAINTRandomWalkSampler`` in PyG's place, against walks and norms counted by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from handful.errors import GraphError, SamplerError
from handful.pyg import GraphSAINTRandomWalkSampler
from handful.samplers.saint import pre_sampled
from pyg_data import any_data, assert_carried, assert_induced, make_data


@settings(deadline=None)  # the first example compiles
@given(any_data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_batches_are_induced_and_reachable(data: Data, roots: int, length: int, steps: int, seed: int) -> None:
    loader = GraphSAINTRandomWalkSampler(data, roots, length, steps, seed=seed)
    batches = list(loader)
    assert len(batches) == len(loader) == steps
    for batch in batches:
        assert_induced(data, batch)
        assert 1 <= batch.num_nodes <= roots * (length + 1)
        by_source = (batch.edge_index[0] * data.num_nodes + batch.edge_index[1]).diff()
        assert (by_source >= 0).all()
        assert "node_norm" not in batch


def test_walks_follow_the_edges() -> None:
    path = Data(edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), num_nodes=6)
    runs = {tuple(b.n_id.tolist()) for b in GraphSAINTRandomWalkSampler(path, 1, 2, num_steps=200, seed=0)}
    assert runs == {(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5), (5,)}


def test_a_step_takes_every_edge_equally_often() -> None:
    fork = Data(edge_index=torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 0]]), num_nodes=5)
    starts = torch.zeros(5)
    for batch in GraphSAINTRandomWalkSampler(fork, 1, 1, num_steps=2_000, seed=0):
        if batch.num_nodes == 2:  # from 0 to one of four, or from 1 to 0
            starts[batch.n_id[1]] += 1
    # A fifth of the walks start at 0 and choose one of four; another fifth starts at 1 and goes to 0.
    want = torch.tensor([0, 500, 100, 100, 100])
    assert ((starts - want)[1:] / want[1:].sqrt()).abs().max() < 4


def test_every_attribute_is_carried() -> None:
    data = make_data()
    for batch in GraphSAINTRandomWalkSampler(data, 4, 2, num_steps=3, sample_coverage=2, seed=0):
        assert_carried(data, batch)


def test_norms_are_pygs_formula_over_what_was_seen() -> None:
    data = make_data(30, 90)
    loader = GraphSAINTRandomWalkSampler(data, 3, 2, num_steps=20, sample_coverage=4, seed=5)
    assert loader.counts is not None
    node_count, edge_count = torch.zeros(30), torch.zeros(90)
    for k in range(loader.counts.subgraphs):
        nodes = torch.from_numpy(pre_sampled(loader.walks, loader.source.graph, 5, k))
        inside = torch.isin(data.edge_index, nodes).all(0)
        node_count[nodes] += 1
        edge_count[inside] += 1
    assert node_count.sum() >= 4 * 30
    edge_norm = (node_count[data.edge_index[0]] / edge_count).clamp(0, 1e4)
    edge_norm[edge_norm.isnan()] = 0.1
    node_count[node_count == 0] = 0.1
    node_norm = loader.counts.subgraphs / node_count / 30
    for batch in loader:
        torch.testing.assert_close(batch.node_norm, node_norm[batch.n_id])
        torch.testing.assert_close(batch.edge_norm, edge_norm[batch.e_id])


def test_node_norm_makes_the_loss_unbiased() -> None:
    """The batch's node_norm-weighted sum has the mean over all nodes as its expectation."""
    data = make_data(30, 150)
    loss = torch.bincount(data.edge_index[1], minlength=30).float()  # walks go to where many edges lead
    loader = GraphSAINTRandomWalkSampler(data, 3, 2, num_steps=800, sample_coverage=300, seed=0)
    sums, plain = torch.tensor(
        [[float((b.node_norm * loss[b.n_id]).sum()), float(loss[b.n_id].mean())] for b in loader]
    ).T
    assert abs(sums.mean() - loss.mean()) < 4 * sums.std() / len(sums) ** 0.5
    assert abs(plain.mean() - loss.mean()) > 8 * plain.std() / len(plain) ** 0.5  # and without it, it is not


def test_wrong_arguments_are_refused() -> None:
    data = make_data(10, 30)
    with pytest.raises(SamplerError, match="walk_length must be"):
        GraphSAINTRandomWalkSampler(data, 3, 0)
    with pytest.raises(SamplerError, match="sample_coverage must be"):
        GraphSAINTRandomWalkSampler(data, 3, 2, sample_coverage=-1)
    with pytest.raises(GraphError, match="no node"):
        GraphSAINTRandomWalkSampler(Data(edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=0), 3, 2)
    data.node_norm = torch.ones(10)
    with pytest.raises(GraphError, match="node_norm"):
        GraphSAINTRandomWalkSampler(data, 3, 2)
    with pytest.warns(UserWarning, match="ignores save_dir"):
        GraphSAINTRandomWalkSampler(make_data(10, 30), 3, 2, save_dir="norms", log=False)
