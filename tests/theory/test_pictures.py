from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import handful as hf
from graphs import make_graph
from handful.samplers.full import FullGraph
from handful.samplers.random_node import RandomNodes
from handful.theory import pictures
from handful.theory.bias import BiasBound
from handful.theory.diagnosis import diagnose
from handful.theory.structure import structure


@pytest.mark.parametrize("repeats", [1, 3])
def test_bars_and_plane_show_every_sampler(repeats: int) -> None:
    """One repeat has no interval, and the full graph no variance: neither may break a log scale."""
    graph = make_graph(200)
    make = partial(hf.SAGE, graph.num_features, graph.num_outputs, hidden=4, layers=1)
    found = diagnose(graph, [RandomNodes(3), FullGraph()], make, batches=3, repeats=repeats)
    bars = pictures.term_bars(found, "my")
    assert [axes.get_title() for axes in bars.axes] == list(pictures.BARS.values())
    heights = [[bar.get_height() for bar in axes.patches] for axes in bars.axes]
    assert heights == [[d.mean(term) for d in found] for term in pictures.BARS]
    plane = pictures.alpha_plane(found, "my")
    assert [text.get_text() for text in plane.axes[0].get_legend().get_texts()] == ["rns", "full"]


def test_curves_leave_out_what_was_not_measured(tmp_path: Path) -> None:
    graph = hf.Graph.from_edge_index(np.random.default_rng(0).integers(0, 60, (2, 200)), 60)
    figure = pictures.structure_curves(structure(graph, [1, 2, 4], epochs=2), "bare")
    shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert shown == [title for name, title in pictures.CURVES.items() if name != "homophily"]
    for kind in ("svg", "png"):
        pictures.save(figure, tmp_path / f"curves.{kind}")
        assert (tmp_path / f"curves.{kind}").stat().st_size > 1000
    pictures.save(pictures.structure_curves(structure(graph, [1, 2, 4], epochs=2), "bare"), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "curves.svg").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


def test_bound_has_both_sides() -> None:
    rows = [BiasBound(m, 0.01 * m, 0.001, 3.0 * m, 1.0 * m, 1.5) for m in (1, 2, 4)]
    lines = pictures.bound_lines(rows, "my").axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[9.0, 18.0], [3.0, 6.0], [0.02, 0.04]]


def test_degrees_as_line_and_dots() -> None:
    law = np.array([0.5, 0.3, 0.2])
    axes = pictures.degree_lines({1: law, 2: law}, {1: law, 2: np.array([0.6, 0.4, 0.0])}, "my").axes[0]
    assert [list(np.round(line.get_ydata(), 6)) for line in axes.lines] == [[0.5, 0.2]] * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["m = 1", "m = 2"]
