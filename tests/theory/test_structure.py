from __future__ import annotations

import math
from functools import partial

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.theory.structure import MEASURES, homophilies, part_structure, statistics, structure
from handful.theory.thinning import edge_survival

measured = partial(structure, seed=1, sources=16, sweeps=4, report=lambda m: None)


def graph_of(edges: np.ndarray, n: int, **fields: object) -> Graph:
    return Graph.from_edge_index(edges.reshape(-1, 2).T, n, **fields).to_undirected().without_loops().coalesce()


def exact(graph: nx.Graph) -> dict[str, float]:
    total, pairs, diameter = 0, 0, 0
    for nodes in nx.connected_components(graph):
        for _, distances in nx.all_pairs_shortest_path_length(graph.subgraph(nodes)):
            total += sum(distances.values())
            pairs += len(distances) - 1
            diameter = max(diameter, *distances.values())
    sizes = [len(c) for c in nx.connected_components(graph)]
    return {
        "edges": 2 * graph.number_of_edges(),
        "isolated": nx.number_of_isolates(graph),
        "components": len(sizes),
        "largest_component": max(sizes),
        "diameter": diameter,
        "average_distance": total / pairs if pairs else float("nan"),
    }


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_against_networkx_with_every_node_as_a_source(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graph_of(rng.integers(0, n, (m, 2)), n)
    twin = nx.Graph()
    twin.add_nodes_from(range(n))
    twin.add_edges_from(graph.edge_index.T.tolist())
    found = part_structure(*graph.topology, rng, sources=n)
    for name, value in exact(twin).items():
        assert getattr(found, name) == pytest.approx(value, nan_ok=True), name


def test_few_sources_estimate_without_bias() -> None:
    """A graph with a large and many small components: the mean of many estimates is the exact average."""
    rng = np.random.default_rng(0)
    n = 300
    edges = np.concatenate([rng.integers(0, 150, (200, 2)), rng.integers(150, n, (60, 2))])
    graph = graph_of(edges, n)
    truth = part_structure(*graph.topology, rng, sources=n)
    estimates = [part_structure(*graph.topology, rng, sources=4) for _ in range(1500)]
    values = [part.average_distance for part in estimates]
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - truth.average_distance) < 4 * error
    assert error < 0.02 * truth.average_distance
    assert all(part.diameter <= truth.diameter for part in estimates)


def test_sweeps_find_the_diameter_of_a_tree() -> None:
    tree = nx.random_labeled_tree(400, seed=3)
    graph = graph_of(np.array(tree.edges), 400)
    found = part_structure(*graph.topology, np.random.default_rng(0), sources=1, sweeps=3)
    assert found.diameter == nx.diameter(tree)


def test_homophily_by_hand() -> None:
    y = np.array([0, 0, 1, -1])
    graph = graph_of(np.array([[0, 1], [1, 2], [2, 3]]), 4)
    assert part_structure(*graph.topology, np.random.default_rng(0), y).homophily == pytest.approx(0.5)
    assert math.isnan(part_structure(*graph.topology, np.random.default_rng(0)).homophily)


def test_structure_over_parts() -> None:
    rng = np.random.default_rng(2)
    n = 600
    y = rng.integers(0, 3, n)
    graph = Graph.from_edge_index(rng.integers(0, n, (2, 3000)), n, y=y)
    rows = measured(graph, [1, 2, 6], epochs=4)
    assert [row["m"] for row in rows] == [1, 2, 6]
    assert all(set(row) == {"m", *MEASURES} for row in rows)
    simple = graph.to_undirected().without_loops()
    assert rows[0]["edges"] == {"mean": simple.num_edges, "sd": 0}
    for row in rows:
        share = edge_survival(n, row["m"]) / row["m"]
        assert row["edges"]["mean"] == pytest.approx(simple.num_edges * share, rel=0.05)
        assert row["homophily"]["mean"] == pytest.approx(1 / 3, abs=0.06)
    isolated = [row["isolated"]["mean"] / row["nodes"]["mean"] for row in rows]
    assert isolated == sorted(isolated)
    assert rows == measured(graph, [1, 2, 6], epochs=4)
    assert np.isnan(measured(graph, [2], epochs=1)[0]["edges"]["sd"])


def test_repeated_edges_count_once() -> None:
    """A graph that is symmetric as it stands may still hold an edge twice."""
    twice = Graph.from_edge_index(np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]), 3)
    assert measured(twice, [1], epochs=1)[0]["edges"]["mean"] == 4


# -- the paper's row of a data set -------------------------------------------------------------------------------------


def from_networkx(nxg: nx.Graph, **fields: object) -> Graph:
    edges = np.array(nxg.edges, np.int64).reshape(-1, 2).T
    return Graph.from_edge_index(np.concatenate([edges, edges[::-1]], axis=1), nxg.number_of_nodes(), **fields)


@pytest.mark.parametrize("seed", range(3))
def test_row_of_a_random_graph_against_networkx(seed: int) -> None:
    nxg = nx.gnp_random_graph(120, 0.015, seed=seed)
    y = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, 120))
    found = statistics(from_networkx(nxg, y=y), sources=120)
    parts = [nxg.subgraph(c) for c in nx.connected_components(nxg)]
    pairs = sum(len(p) * (len(p) - 1) for p in parts)
    assert found.nodes == 120
    assert found.edges == 2 * nxg.number_of_edges()
    assert found.density == pytest.approx(nx.density(nxg))
    assert found.average_degree == pytest.approx(2 * nxg.number_of_edges() / 120)
    assert found.isolated == nx.number_of_isolates(nxg)
    assert found.components == len(parts)
    assert found.homophily == pytest.approx(np.mean([bool(y[u] == y[v]) for u, v in nxg.edges]))
    assert found.diameter == max(nx.diameter(p) for p in parts)
    distances = sum(sum(row.values()) for p in parts for _, row in nx.all_pairs_shortest_path_length(p))
    assert found.average_distance == pytest.approx(distances / pairs)


def test_sampled_distances_are_close_and_a_lower_bound() -> None:
    nxg = nx.watts_strogatz_graph(800, 4, 0.05, seed=1)
    graph = from_networkx(nxg)
    sampled, exact = statistics(graph, sources=64), statistics(graph, sources=800)
    assert sampled.average_distance == pytest.approx(exact.average_distance, rel=0.05)
    assert 0.8 * exact.diameter <= sampled.diameter <= exact.diameter


def test_a_directed_graph_with_loops_is_measured_as_the_paper_does() -> None:
    graph = Graph.from_edge_index(np.array([[0, 1, 1, 2], [1, 0, 1, 3]]), 5)
    found = statistics(graph)
    assert (found.edges, found.isolated, found.components, found.undirected) == (4, 1, 3, False)
    assert math.isnan(found.homophily)
    assert found.split is None


def test_a_graph_without_edges_or_with_one_node() -> None:
    found = statistics(from_networkx(nx.empty_graph(3)))
    assert (found.edges, found.isolated, found.diameter) == (0, 3, 0)
    assert math.isnan(found.average_distance)
    assert math.isnan(statistics(from_networkx(nx.empty_graph(1))).density)


def test_split_sizes() -> None:
    y = torch.tensor([0, 1, 0, 1])
    found = statistics(
        from_networkx(nx.path_graph(4), y=y, train_mask=torch.tensor([0, 1]), val_mask=torch.tensor([2]))
    )
    assert found.split == {"train": 2, "val": 1, "test": 0}
    assert found.classes == 2


# -- homophily ---------------------------------------------------------------------------------------------------------


def of_graph(nxg: nx.Graph, y: np.ndarray) -> tuple[float, float, float]:
    return homophilies(*from_networkx(nxg).topology, y)


@pytest.mark.parametrize("seed", range(4))
def test_homophilies_against_their_definitions(seed: int) -> None:
    """Adjusted homophily is networkx's assortativity by class; the unbiased one by its sum over pairs of classes."""
    rng = np.random.default_rng(seed)
    nxg, y = nx.gnp_random_graph(60, 0.1, seed=seed), rng.choice(4, 60, p=[0.6, 0.2, 0.15, 0.05])
    edge, adjusted, unbiased = of_graph(nxg, y)
    nx.set_node_attributes(nxg, dict(enumerate(y.tolist())), "y")
    assert edge == pytest.approx(np.mean([y[u] == y[v] for u, v in nxg.edges]))
    assert adjusted == pytest.approx(nx.attribute_assortativity_coefficient(nxg, "y"))
    c = np.zeros((4, 4))
    for u, v in nxg.edges:
        c[y[u], y[v]] += 0.5 / nxg.number_of_edges()
        c[y[v], y[u]] += 0.5 / nxg.number_of_edges()
    pairs = [(i, j) for i in range(4) for j in range(i)]
    expected = sum(np.sqrt(c[i, i] * c[j, j]) - c[i, j] for i, j in pairs)
    assert unbiased == pytest.approx(expected / sum(np.sqrt(c[i, i] * c[j, j]) + c[i, j] for i, j in pairs))


def test_homophilies_at_their_ends() -> None:
    two = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(3))
    assert of_graph(two, np.array([0] * 6 + [1] * 3)) == (1.0, pytest.approx(1.0), pytest.approx(1.0))
    none = nx.complete_multipartite_graph(4, 4, 2)
    edge, adjusted, unbiased = of_graph(none, np.array([0] * 4 + [1] * 4 + [2] * 2))
    assert (edge, unbiased) == (0.0, pytest.approx(-1.0))
    assert -1 < adjusted < 0  # which depends on the number of classes
    rng, big = np.random.default_rng(0), nx.gnp_random_graph(400, 0.1, seed=1)
    by_chance = of_graph(big, rng.choice(3, 400, p=[0.8, 0.15, 0.05]))
    assert by_chance[0] > 0.6
    assert by_chance[1:] == (pytest.approx(0, abs=0.02), pytest.approx(0, abs=0.05))
    for unlabelled in (np.full(9, -1), np.zeros(9, np.int64)):  # nothing known; one class
        assert math.isnan(of_graph(two, unlabelled)[2])
    found = statistics(from_networkx(two, y=torch.tensor([0] * 6 + [1] * 3)))
    assert (found.homophily, found.unbiased_homophily) == (1.0, pytest.approx(1.0))
