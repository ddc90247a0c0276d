"""The size of a graph without loading it."""

from __future__ import annotations

from pathlib import Path

import pytest

import handful as hf
from graphs import make_graph
from handful.datasets.shape import _of_graph, shape_of
from handful.storage import save
from npz import write_npz

PAPERS = "synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011"


def test_the_shape_of_a_graph_is_known_without_loading_it(tmp_path: Path) -> None:
    graph = make_graph(300)
    assert graph.train_mask is not None
    saved = save(graph, tmp_path / "g")
    shape = shape_of(str(saved))
    assert (shape.nodes, shape.edges, shape.features) == (300, graph.num_edges, graph.num_features)
    assert (shape.outputs, shape.train) == (graph.num_outputs, int(graph.train_mask.sum()))
    assert shape.folder == saved
    assert shape.known == "its header and masks"
    (saved / "indices.npy").write_bytes(b"")  # nothing of it is read
    assert shape_of(str(saved)) == shape
    assert shape_of(str(saved), "random:20/40/40").train == 60

    loaded = shape_of(str(write_npz(tmp_path / "g.npz", graph)))
    assert (loaded.nodes, loaded.edges, loaded.train) == (shape.nodes, shape.edges, shape.train)
    assert loaded.known == "loading it"

    papers = shape_of(PAPERS)
    assert (papers.nodes, papers.edges, papers.train) == (111_000_000, 1_598_400_000, 1_221_000)
    assert papers.element == 2
    debian = hf.load("debian")
    named = shape_of("debian")
    assert (named.nodes, named.edges, named.features) == (debian.num_nodes, debian.num_edges, debian.num_features)
    assert named.train == pytest.approx(len(debian.train_nodes), rel=0.01)


def test_sparse_features_are_planned_as_a_dense_table(tmp_path: Path) -> None:
    full = make_graph(60, features=700)
    assert full.x is not None
    graph = full.replace(x=full.x.to_sparse_csr(), name="g")
    for shape in (shape_of(str(save(graph, tmp_path / "g"))), _of_graph(graph)):
        assert (shape.features, shape.feature_bytes) == (700, 60 * 700 * 4)
        assert "sparse features" in shape.known
