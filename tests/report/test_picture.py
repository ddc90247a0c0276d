from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from handful.errors import HandfulError
from handful.finding import Panel, SamplerPicture
from handful.report.picture import samplers_svg
from handful.report.vega import write_svg

PLACE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
EDGES = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 4]])


def panel(**changed: object) -> Panel:
    fields = {"nodes": np.array([0, 1, 2]), "targets": np.array([0]), "edges": np.array([[1, 2], [0, 1]])}
    return Panel("A & B", "2 <hops>", **{**fields, "directed": True, **changed})  # type: ignore[arg-type]


def picture(*panels: Panel) -> SamplerPicture:
    return SamplerPicture(list(panels), PLACE, EDGES, "5 nodes")


def test_a_picture_has_two_rows_for_each_panel_and_a_legend() -> None:
    svg = samplers_svg(picture(panel(), panel(directed=False)))
    root = ElementTree.fromstring(svg)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("A & B") == 2
    for text in ("sampling process", "sampled subgraph", "2 <hops>", "target: its loss counts", "5 nodes"):
        assert text in texts
    assert svg.count("marker-end") == 4  # two messages above and two below; without a direction they are lines
    for kind, groups in (("target", 5), ("helper", 5), ("rest", 3)):
        assert svg.count(f'<g class="{kind}"') == groups


def test_walks_and_groups_are_shown_in_the_process() -> None:
    walk = samplers_svg(picture(panel(directed=False, walks=np.array([[0, 1, 1, 2]]))))
    assert walk.count("marker-end") == 2  # a step to the same node is none
    groups = samplers_svg(picture(panel(groups=[np.array([0, 1]), np.array([3, 4])])))
    assert '<g class="tint0"' in groups  # drawn
    assert '<g class="untaken"' in groups  # not drawn


@pytest.mark.parametrize("n", [1, 5])
def test_nodes_without_edges_are_drawn_too(n: int) -> None:
    nothing = np.zeros((2, 0), int)
    alone = panel(nodes=np.arange(n), targets=np.arange(1), edges=nothing)
    ElementTree.fromstring(samplers_svg(SamplerPicture([alone], PLACE[:n], nothing, "")))


def test_the_format_is_that_of_the_suffix_and_the_same_again(tmp_path: Path) -> None:
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        write_svg(samplers_svg(picture(panel())), tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes().startswith(start)
    write_svg(samplers_svg(picture(panel())), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(HandfulError, match=r"must end in \.svg"):
        write_svg(samplers_svg(picture(panel())), tmp_path / "a.gif")
