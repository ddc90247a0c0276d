from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.theory.structure import MEASURES, edge_homophily, part_structure, structure
from handful.theory.thinning import edge_survival


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
        "diameter_lower_bound": diameter,
        "average_distance": total / pairs if pairs else float("nan"),
    }


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
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
    assert all(part.diameter_lower_bound <= truth.diameter_lower_bound for part in estimates)


def test_sweeps_find_the_diameter_of_a_tree() -> None:
    tree = nx.random_labeled_tree(400, seed=3)
    graph = graph_of(np.array(tree.edges), 400)
    found = part_structure(*graph.topology, np.random.default_rng(0), sources=1, sweeps=3)
    assert found.diameter_lower_bound == nx.diameter(tree)


def test_homophily_by_hand() -> None:
    y = np.array([0, 0, 1, -1])
    graph = graph_of(np.array([[0, 1], [1, 2], [2, 3]]), 4)
    assert edge_homophily(*graph.topology, y) == pytest.approx(0.5)
    assert np.isnan(edge_homophily(*graph.topology, None))


def test_structure_over_parts() -> None:
    rng = np.random.default_rng(2)
    n = 600
    y = rng.integers(0, 3, n)
    graph = Graph.from_edge_index(rng.integers(0, n, (2, 3000)), n, y=y)
    rows = structure(graph, [1, 2, 6], epochs=4, seed=1)
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
    assert rows == structure(graph, [1, 2, 6], epochs=4, seed=1)
    assert np.isnan(structure(graph, [2], epochs=1)[0]["edges"]["sd"])


def test_repeated_edges_count_once() -> None:
    """A graph that is symmetric as it stands may still hold an edge twice."""
    twice = Graph.from_edge_index(np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]), 3)
    assert structure(twice, [1], epochs=1)[0]["edges"]["mean"] == 4
