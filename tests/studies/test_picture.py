from __future__ import annotations

import numpy as np
import torch

from handful import Graph
from handful.studies.picture import SHOWN, TARGETS, panels, sampler_picture, small_graph, stress_layout


def ring(n: int, chords: int = 0, **fields: object) -> Graph:
    rng = np.random.default_rng(0)
    edges = np.concatenate([np.stack([np.arange(n), (np.arange(n) + 1) % n]), rng.integers(0, n, (2, chords))], axis=1)
    return Graph.from_edge_index(edges, n, **fields).to_undirected()


def test_a_small_graph_is_drawn_whole_and_a_large_one_in_part() -> None:
    small = small_graph(ring(20), 0)
    assert small.num_nodes == 20
    assert small.num_edges == 40
    assert int(small.train_mask.sum()) == 10
    large = ring(5000, 3000)
    shown = small_graph(large, 3)
    assert shown.num_nodes == SHOWN
    assert (stress_layout(shown) >= 0).all()
    hops = torch.linalg.matrix_power(torch.eye(SHOWN) + dense(shown), SHOWN)
    assert (hops > 0).all()  # connected


def dense(graph: Graph) -> torch.Tensor:
    out = torch.zeros(graph.num_nodes, graph.num_nodes)
    out[graph.edge_index[1], graph.edge_index[0]] = 1
    return out


def test_the_training_nodes_are_the_graphs_own() -> None:
    train = torch.zeros(20, dtype=torch.bool)
    train[[3, 5]] = True
    small = small_graph(ring(20, train_mask=train, y=torch.zeros(20), num_classes=2), 0)
    assert small.train_nodes.tolist() == [3, 5]


def test_the_layout_puts_neighbours_near() -> None:
    place = stress_layout(ring(12))
    steps = np.linalg.norm(place - np.roll(place, -1, axis=0), axis=1)
    across = np.linalg.norm(place - np.roll(place, -6, axis=0), axis=1)
    assert steps.max() < across.min()
    assert place.min() >= 0
    assert place.max() <= 1


def test_panels_show_real_batches() -> None:
    small = small_graph(ring(40, 20), 1)
    edges = set(map(tuple, small.edge_index.T.tolist()))
    shown = panels(small, 1)
    assert [p.method for p in shown] == ["neighbor", "cluster", "saint", "ladies", "rns"]
    for panel in shown:
        assert set(map(tuple, panel.edges.T.tolist())) <= edges
        assert set(panel.targets) <= set(panel.nodes)
        assert small.train_mask[panel.targets].all()
    neighbor, cluster, saint, ladies, rns = shown
    # The same targets: what differs is what each draws for them.
    assert set(neighbor.targets) == set(ladies.targets)
    assert len(ladies.targets) == TARGETS
    assert len(set(neighbor.nodes) - set(ladies.nodes)) >= 4
    assert np.bincount(neighbor.edges[1]).max() <= 2
    assert not np.isin(neighbor.edges[0], neighbor.edges[1]).all()  # a second hop
    assert 1 <= len(ladies.groups) <= 2
    assert not set(np.concatenate(ladies.groups)) & set(ladies.targets)
    assert sum(set(group) <= set(cluster.nodes) for group in cluster.groups) == 2
    assert set(saint.walks.ravel()) == set(saint.nodes)
    assert len(rns.nodes) == 20


def test_odd_graphs_have_a_picture_too() -> None:
    odd = [
        Graph.from_edge_index(np.zeros((2, 0), int), 1),
        Graph.from_edge_index(np.zeros((2, 0), int), 5),
        Graph.from_edge_index(np.array([[0], [1]])),
        Graph.from_edge_index(np.array([[0, 1, 2, 2], [1, 2, 2, 0]])),
        Graph.from_edge_index(np.stack([np.arange(1, 90), np.zeros(89, int)])),
    ]
    for graph in odd:
        picture = sampler_picture(graph, 0)
        assert len(picture.panels) == 5
        assert np.isfinite(picture.place).all()
        assert str(graph.num_nodes) in picture.note
