"""The picture of samplers, ``docs/draw_samplers.py``."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from handful import Graph
from scripts import script

drawing = script("draw_samplers", "docs")


def ring(n: int, chords: int = 0, **fields: object) -> Graph:
    rng = np.random.default_rng(0)
    edges = np.concatenate([np.stack([np.arange(n), (np.arange(n) + 1) % n]), rng.integers(0, n, (2, chords))], axis=1)
    return Graph.from_edge_index(edges, n, **fields).to_undirected()


def test_a_small_graph_is_drawn_whole_and_a_large_one_in_part() -> None:
    small = drawing.small_graph(ring(20), 0)
    assert (small.num_nodes, small.num_edges, int(small.train_mask.sum())) == (20, 40, 10)
    shown = drawing.small_graph(ring(5000, 3000), 3)
    assert shown.num_nodes == drawing.SHOWN
    step = torch.eye(shown.num_nodes)
    step[shown.edge_index[1], shown.edge_index[0]] = 1
    assert (torch.linalg.matrix_power(step, shown.num_nodes) > 0).all()  # connected


def test_the_training_nodes_are_the_graphs_own() -> None:
    train = torch.zeros(20, dtype=torch.bool)
    train[[3, 5]] = True
    small = drawing.small_graph(ring(20, train_mask=train, y=torch.zeros(20), num_classes=2), 0)
    assert small.train_nodes.tolist() == [3, 5]


def test_the_layout_puts_neighbours_near() -> None:
    place = drawing.stress_layout(ring(12))
    steps = np.linalg.norm(place - np.roll(place, -1, axis=0), axis=1)
    across = np.linalg.norm(place - np.roll(place, -6, axis=0), axis=1)
    assert steps.max() < across.min()
    assert place.min() >= 0
    assert place.max() <= 1


def test_panels_show_real_batches() -> None:
    small = drawing.small_graph(ring(40, 20), 1)
    edges = set(map(tuple, small.edge_index.T.tolist()))
    shown = drawing.panels(small, 1)
    for panel in shown:
        assert set(map(tuple, panel.edges.T.tolist())) <= edges
        assert set(panel.targets) <= set(panel.nodes)
        assert small.train_mask[panel.targets].all()
    neighbor, cluster, saint, ladies, rns = shown
    assert set(neighbor.targets) == set(ladies.targets)
    assert len(ladies.targets) == drawing.TARGETS
    assert np.bincount(neighbor.edges[1]).max() <= 2
    assert not np.isin(neighbor.edges[0], neighbor.edges[1]).all()  # a second hop
    assert not set(np.concatenate(ladies.groups)) & set(ladies.targets)
    assert sum(set(group) <= set(cluster.nodes) for group in cluster.groups) == 2
    assert set(saint.walk) == set(saint.nodes)
    assert len(rns.nodes) == 20


def test_a_step_to_the_same_node_has_no_arrow() -> None:
    place, edges = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.array([[0, 1], [1, 2]])
    nodes = np.array([0, 1, 2])
    walk = drawing.Panel("A & B", "2 <hops>", nodes, nodes[:1], edges, directed=False, walk=[0, 1, 1, 2])
    svg = drawing.to_svg([walk], place, edges, "3 nodes")
    assert svg.count("marker-end") == 2
    texts = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"A & B", "2 <hops>", "3 nodes"} <= set(texts)


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_edge_index(np.zeros((2, 0), int), 1),
        Graph.from_edge_index(np.zeros((2, 0), int), 5),
        Graph.from_edge_index(np.array([[0], [1]])),
        Graph.from_edge_index(np.array([[0, 1, 2, 2], [1, 2, 2, 0]])),
        Graph.from_edge_index(np.stack([np.arange(1, 90), np.zeros(89, int)])),
    ],
)
def test_odd_graphs_have_a_picture_too(graph: Graph) -> None:
    svg = drawing.draw_samplers(graph, 0)
    assert "nan" not in svg
    assert len(list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"))) == 1 + 2 * 5


def test_the_script_writes_the_same_file_again_or_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = "synthetic?nodes=300&degree=4&features=2"
    for name in ("a.svg", "b.svg"):
        drawing.main([graph, "--out", str(tmp_path / "new" / name), "--seed", "1"])
    assert (tmp_path / "new" / "a.svg").read_text() == (tmp_path / "new" / "b.svg").read_text()
    with pytest.raises(SystemExit, match="did you mean debian"):
        drawing.main(["debain"])
    with pytest.raises(SystemExit):
        drawing.main([graph, "--out", "a.gif"])
    assert "--out must end in .svg" in capsys.readouterr().err
