from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handful import Graph, RandomNodes, SamplerError, fit
from handful.nn import make_model
from handful.samplers import cluster
from handful.samplers.cluster import Clusters, deal_clusters, metis, partition
from subgraphs import edges_of, induced_edges


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    return tmp_path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), seed=st.integers(0, 99))
def test_an_epoch_covers_every_node_once_and_keeps_all_edges_inside_a_batch(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, seed: int
) -> None:
    graph = data.draw(graphs)
    clusters = data.draw(st.integers(1, graph.num_nodes))
    per_batch = data.draw(st.integers(1, clusters))
    of_node = partition(graph, clusters).cluster
    sampler = Clusters(clusters, per_batch)
    batches = list(sampler.epoch(graph, seed, 0))
    assert len(batches) == -(-len(np.unique(of_node)) // per_batch)
    assert sorted(torch.cat([b.nodes for b in batches]).tolist()) == list(range(graph.num_nodes))
    assert sum(len(b.targets) for b in batches) == len(graph.train_nodes)
    for batch in batches:
        inside = np.unique(of_node[batch.nodes])
        assert set(np.flatnonzero(np.isin(of_node, inside))) == set(batch.nodes.tolist())  # whole clusters only
        assert len(inside) <= per_batch
        (layer,) = batch.layers
        assert edges_of(layer) == induced_edges(graph, batch.nodes)
        assert layer.symmetric == graph.undirected


def test_clusters_are_joined_at_random() -> None:
    of_node = np.repeat(np.arange(6), 10)
    together = np.zeros((6, 6))
    draws = 3000
    for seed in range(draws):
        part, batches = deal_clusters(of_node, 2, np.random.default_rng(seed))
        assert batches == 3
        by_cluster = part.reshape(6, 10)
        assert (by_cluster == by_cluster[:, :1]).all()
        together += by_cluster[:, 0][:, None] == by_cluster[:, 0]
    pairs = together[~np.eye(6, dtype=bool)] / draws
    assert np.abs(pairs - 1 / 5).max() < 5 * np.sqrt(0.2 * 0.8 / draws)


def test_metis_finds_the_communities() -> None:
    """Two cliques joined by one edge, given in one direction only and with loops."""
    clique = [(a, b) for a in range(8) for b in range(a, 8)]
    edges = [*clique, *((a + 8, b + 8) for a, b in clique), (3, 12)]
    found = metis(Graph.from_edge_index(np.array(edges).T), 2)
    assert len(set(found[:8])) == 1
    assert len(set(found[8:])) == 1
    assert found[0] != found[8]


def test_the_partition_is_kept_and_a_broken_file_is_made_anew(
    medium: Graph, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = partition(medium, 7)
    [file] = (home / "partitions").iterdir()

    def never(*_: object) -> np.ndarray:
        raise AssertionError("the partition was on disk")

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "metis", never)
        same_topology = medium.replace(name="another")
        again = partition(same_topology, 7)
        assert np.array_equal(again.cluster, first.cluster)
        assert again.seconds == first.seconds > 0  # those that METIS took, not those of reading them
        assert Clusters(7, 2).prepare(medium.replace(name="also")) == first.seconds
    for broken in (b"", b"no array", file.read_bytes()[:-8]):
        file.write_bytes(broken)
        assert np.array_equal(partition(medium.replace(name="third"), 7).cluster, first.cluster)
        assert np.array_equal(np.load(file)["cluster"], first.cluster)
    np.savez(file, cluster=np.full(300, 9, np.int32), seconds=1.0)  # ids beyond the number of clusters
    assert np.array_equal(partition(medium.replace(name="fourth"), 7).cluster, first.cluster)


def test_a_run_tells_what_metis_took(medium: Graph, home: Path) -> None:
    """In a line of its own, and the same where the clusters were kept."""
    graph = medium.replace(val_mask=~medium.train_mask, test_mask=torch.zeros(300, dtype=torch.bool))
    model = make_model("sage", 8, 5, hidden=4, layers=1)
    sampler = Clusters(6, 2)
    first, second = (fit(model, graph.replace(name=name), sampler, epochs=1) for name in ("one", "two"))
    assert first.prepare_seconds == second.prepare_seconds == partition(graph, 6).seconds > 0
    assert fit(model, graph, RandomNodes(2), epochs=1).prepare_seconds == 0.0


def test_a_cache_that_cannot_be_written_is_gone_without(
    medium: Graph, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("in the way")
    monkeypatch.setenv("HANDFUL_HOME", str(home / "file"))
    assert len(partition(medium.replace(name="unkept"), 3).cluster) == 300


def test_more_clusters_than_nodes_is_an_error(medium: Graph) -> None:
    with pytest.raises(SamplerError, match="300 nodes into 301 clusters: use fewer"):
        next(Clusters(301, 1).epoch(medium, 0, 0))


@pytest.mark.parametrize(
    "wrong", [{"clusters": 0}, {"per_batch": 0}, {"clusters": 2, "per_batch": 3}, {"clusters": 2.0}]
)
def test_wrong_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SamplerError, match=next(reversed(wrong))):
        Clusters(**wrong)
