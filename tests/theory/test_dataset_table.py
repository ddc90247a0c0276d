from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

from handful.datasets.registry import sources
from handful.graph import Graph
from handful.theory.dataset_table import COLUMNS, PAPER, Printed, compared, inconsistencies, printed, statistics


def graph_of(nxg: nx.Graph, **fields: object) -> Graph:
    edges = np.array(nxg.edges, np.int64).reshape(-1, 2).T
    return Graph.from_edge_index(np.concatenate([edges, edges[::-1]], axis=1), nxg.number_of_nodes(), **fields)


@pytest.mark.parametrize("seed", range(3))
def test_row_of_a_random_graph_against_networkx(seed: int) -> None:
    nxg = nx.gnp_random_graph(120, 0.015, seed=seed)
    y = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, 120))
    found = statistics(graph_of(nxg, y=y), sources=120)
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
    graph = graph_of(nxg)
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
    found = statistics(graph_of(nx.empty_graph(3)))
    assert (found.edges, found.isolated, found.diameter) == (0, 3, 0)
    assert math.isnan(found.average_distance)
    assert math.isnan(statistics(graph_of(nx.empty_graph(1))).density)


def test_split_sizes() -> None:
    y = torch.tensor([0, 1, 0, 1])
    found = statistics(graph_of(nx.path_graph(4), y=y, train_mask=torch.tensor([0, 1]), val_mask=torch.tensor([2])))
    assert found.split == {"train": 2, "val": 1, "test": 0}
    assert found.classes == 2


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.17M", (1_166_243, 1_179_999), (1_164_999, 1_181_000)),
        ("46.5K", (46_563,), (46_400, 46_700)),
        ("4.10e-5", (4.10e-5, 4.109e-5), (4.09e-5, 4.12e-5)),
        ("0.65", (0.655,), (0.64, 0.67)),
        ("24", (24,), (23, 26)),
    ],
)
def test_what_a_printed_number_stands_for(text: str, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    assert all(value in printed(text) for value in inside)
    assert not any(value in printed(text) for value in outside)


def test_ranges() -> None:
    assert Printed(4, 6).over(Printed(2, 3)) == Printed(4 / 3, 3)
    assert Printed(1, 2).times(2) == Printed(2, 4)
    assert Printed(1, 2).meets(Printed(2, 3))
    assert not Printed(1, 2).meets(Printed(2.1, 3))


def test_the_papers_rows_are_those_of_known_data_sets() -> None:
    assert set(PAPER) <= set(sources())
    assert all(set(row) == set(COLUMNS) for row in PAPER.values())


def test_what_the_paper_contradicts_itself_in() -> None:
    found: dict[str, list[str]] = {}
    for item in inconsistencies():
        found.setdefault(item["dataset"], []).append(item["what"])
    assert "artnet-exp" not in found  # the one row that keeps to the caption
    for name in ("ogbn-arxiv", "ogbn-products", "hm-categories", "web-topics", "city-reviews"):
        assert "count each edge once" in found[name][0]
    for name in ("pokec", "pokec-regions", "tolokers-2"):
        assert "neither counted once nor twice" in found[name][0]
    assert "12.4M in one row and 12.9M in the other" in found["web-topics, web-fraud"][0]


def test_comparison_with_the_paper() -> None:
    found = compared("hm-categories", {"nodes": 46_563, "edges": 21_461_990, "homophily": float("nan"), "diameter": 9})
    assert [(item["column"], item["agrees"], bool(item["note"])) for item in found] == [
        ("nodes", True, False),
        ("edges", False, True),
        ("diameter", False, False),
    ]
