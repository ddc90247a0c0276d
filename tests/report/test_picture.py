import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import handful.cli.picture  # noqa: F401  (adds the command)
from handful import Graph
from handful.cli.app import app
from handful.report.picture import SHOWN, draw_samplers, panels, small_graph, stress_layout


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
    assert [p.sampler.name for p in shown] == ["neighbor", "cluster", "saint", "ladies", "rns"]
    for panel in shown:
        assert set(map(tuple, panel.edges.T.tolist())) <= edges
        assert set(panel.targets) <= set(panel.nodes)
        assert small.train_mask[panel.targets].all()
    neighbor, cluster, saint, ladies, rns = shown
    assert len(neighbor.targets) == len(ladies.targets) == 3
    assert np.bincount(neighbor.edges[1]).max() <= 2
    assert sum(set(group) <= set(cluster.nodes) for group in cluster.groups) == 2
    assert set(saint.walks.ravel()) == set(saint.nodes)
    assert len(rns.nodes) == 20


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_edge_index(np.zeros((2, 0), int), 1),
        Graph.from_edge_index(np.zeros((2, 0), int), 5),
        Graph.from_edge_index(np.array([[0], [1]])),
        Graph.from_edge_index(np.array([[0, 1, 2, 2], [1, 2, 2, 0]])),
        Graph.from_edge_index(np.stack([np.arange(1, 90), np.zeros(89, int)])),
    ],
    ids=["one node", "no edges", "two nodes", "directed with a loop", "star"],
)
def test_odd_graphs_are_drawn_too(graph: Graph, tmp_path: Path) -> None:
    small = small_graph(graph, 0)
    draw_samplers(small, panels(small, 0), "odd", tmp_path / "odd.svg")
    assert ElementTree.parse(tmp_path / "odd.svg").getroot().tag.endswith("svg")


def test_the_command_writes_the_same_picture_again(tmp_path: Path) -> None:
    graph = ring(30, 10)
    np.savez(
        tmp_path / "ring.npz", edge_index=graph.edge_index.numpy(), x=np.zeros((30, 1), np.float32), y=np.arange(30) % 3
    )
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        result = CliRunner().invoke(
            app,
            ["picture", str(tmp_path / "ring.npz"), "--out", str(file), "--seed", "2", "--json"],
            catch_exceptions=False,
        )
        assert result.exit_code == 0
        payload = json.loads(result.stdout)
        assert payload["shown"] == payload["nodes"] == 30
        assert [p["sampler"] for p in payload["panels"]] == ["neighbor", "cluster", "saint", "ladies", "rns"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_format_that_is_unknown_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["picture", "debian", "--out", str(tmp_path / "a.gif")])
    assert "must end in .svg, .png, .pdf" in str(result.exception)
