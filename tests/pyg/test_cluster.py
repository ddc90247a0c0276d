"""``ClusterData`` and ``ClusterLoader`` in PyG's place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from handful.errors import SamplerError
from handful.pyg import ClusterData, ClusterLoader
from pyg_data import any_data, assert_carried, assert_induced, make_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(any_data(), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 99))
def test_batches_join_clusters(data: Data, m: int, size: int, shuffle: bool, drop_last: bool, seed: int) -> None:
    m = min(m, data.num_nodes)
    clusters = ClusterData(data, m)
    loader = ClusterLoader(clusters, size, shuffle, drop_last, seed)
    batches = list(loader)
    assert len(batches) == len(loader) == (m // size if drop_last else -(-m // size))
    everyone: list[int] = []
    for batch in batches:
        assert_induced(data, batch)
        joined = np.unique(clusters.cluster[batch.n_id.numpy()])
        assert len(joined) <= size
        assert sorted(batch.n_id.tolist()) == np.flatnonzero(np.isin(clusters.cluster, joined)).tolist()
        everyone += batch.n_id.tolist()
    assert len(everyone) == len(set(everyone))
    assert drop_last or len(everyone) == data.num_nodes


def test_a_cluster_is_its_induced_subgraph_and_the_sequence_ends() -> None:
    data = make_data()
    clusters = ClusterData(data, 5)
    assert len(clusters) == len(list(clusters)) == 5
    for i, batch in enumerate(clusters):
        assert_induced(data, batch)
        assert_carried(data, batch)
        assert batch.n_id.tolist() == np.flatnonzero(clusters.cluster == i).tolist()
    assert torch.equal(clusters[-1].n_id, clusters[4].n_id)
    with pytest.raises(IndexError):
        clusters[5]


def test_metis_finds_the_two_halves() -> None:
    rng = torch.Generator().manual_seed(0)
    halves = [torch.randint(20 * k, 20 * k + 20, (2, 200), generator=rng) for k in range(2)]
    edges = torch.cat([*halves, torch.tensor([[0], [20]])], 1)
    clusters = ClusterData(Data(edge_index=edges, num_nodes=40), 2)
    assert sorted(tuple(batch.n_id.tolist()) for batch in clusters) == [tuple(range(20)), tuple(range(20, 40))]
    (both,) = ClusterLoader(clusters, batch_size=2)
    assert both.num_edges == 401  # the edge between them is back


def test_shuffle_is_new_every_epoch_and_the_same_for_a_seed() -> None:
    clusters = ClusterData(make_data(80, 300), 8)

    def passes(seed: int) -> list[list[list[int]]]:
        loader = ClusterLoader(clusters, batch_size=3, shuffle=True, seed=seed)
        return [[batch.n_id.tolist() for batch in loader] for _ in range(2)]

    assert passes(0) == passes(0)
    assert passes(0) != passes(1)
    assert passes(0)[0] != passes(0)[1]


def test_wrong_arguments_are_refused() -> None:
    data = make_data(10, 30)
    with pytest.raises(SamplerError, match="keep_inter_cluster_edges=False alone"):
        ClusterData(data, 2, keep_inter_cluster_edges=True)
    with pytest.raises(SamplerError, match="use fewer clusters"):
        ClusterData(data, 11)
    with pytest.raises(SamplerError, match="num_parts must be"):
        ClusterData(data, 0)
    with pytest.raises(SamplerError, match="batch_size must be"):
        ClusterLoader(ClusterData(data, 2), batch_size=0)
    with pytest.warns(UserWarning, match="ignores save_dir"):
        ClusterData(data, 2, save_dir="parts")
