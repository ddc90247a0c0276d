from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import altair
import jsonschema_rs
import pytest
import vl_convert

from handful.errors import HandfulError
from handful.finding import Axis, Chart, Series, View
from handful.report.vega import PALETTE, domain, draw, legend_of, spec, write_charts
from handful.vocabulary import METHODS
from made_records import (
    bounds,
    costs,
    crowd,
    curves,
    errors,
    penalty,
    regimes,
    samplers,
    speedup,
    star,
    structure,
    terms,
)

CHARTS = [curves(), costs(), regimes(), speedup(), terms(), structure(), errors(), bounds(), penalty(), crowd(), star()]


def view(values: list[float | None], mark: str = "line", y: Axis | None = None, **series: Any) -> View:
    one = Series("RNS", list(range(1, len(values) + 1)), values, **series)
    return View("v", mark, Axis("x"), y or Axis("y"), [one])  # type: ignore[arg-type]


def alone(one: View) -> dict[str, Any]:
    """The specification of a chart of one view."""
    return spec(Chart("c", "t", [one]))


def rows(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for layer in drawn["layer"] if "layer" in layer for row in layer["data"]["values"]]


def escaped(schema: Any) -> Any:
    """``schema`` with its references as addresses: Vega-Lite's have angle brackets."""
    if isinstance(schema, dict):
        return {
            key: quote(value, safe="#/") if key == "$ref" and isinstance(value, str) else escaped(value)
            for key, value in schema.items()
        }
    return [escaped(one) for one in schema] if isinstance(schema, list) else schema


@pytest.fixture(scope="module")
def grammar() -> Any:
    """Vega-Lite's own schema, as altair brings it."""
    (path,) = Path(altair.__file__).parent.glob("vegalite/v*/schema/vega-lite-schema.json")
    return jsonschema_rs.validator_for(escaped(json.loads(path.read_text(encoding="utf-8"))))


def test_the_grammar_refuses_what_is_none(grammar: Any) -> None:
    wrong = json.dumps(spec(terms())).replace('"quantitative"', '"quantitive"', 1)
    assert not grammar.is_valid(json.loads(wrong))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_kind_of_view_is_valid(chart: Chart, grammar: Any) -> None:
    grammar.validate(spec(chart))
    for one in chart.views:
        grammar.validate(alone(one))
        for which in ("x", "y"):
            if not getattr(one, which).of:
                low, high = domain(one, which)
                assert low < high
    assert "NaN" not in json.dumps(spec(chart))


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([72.5], Axis("", log=True)),
        ([71.0, 74.0], Axis("", log=True)),
        ([1e-9, 1e9], Axis("", log=True)),
        ([3.0], Axis("", whole=True)),
        ([0.0], Axis("")),
        ([-1e-8, 1e-8], Axis("")),
        ([2.0, 3.0], Axis("", whole=True)),
    ],
)
def test_an_axis_never_slips(values: list[float | None], axis: Axis) -> None:
    one = view(values, y=axis)
    low, high = domain(one, "y")
    assert all(low < value < high for value in values if value is not None)  # not on the frame
    texts = tick_texts(one)
    assert 2 <= len(texts) <= 12
    assert not axis.whole or all("." not in text for text in texts)


def tick_texts(one: View) -> list[str]:
    """The labels of the y axis that can be seen in the picture."""
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(alone(one)))
    groups = [group for group in svg.iter() if "role-axis-label" in group.get("class", "")]
    texts = [text for text in groups[-1].iter() if text.tag.endswith("text") and text.get("opacity") != "0"]
    return [text.text or "" for text in texts]


def test_ticks_that_are_asked_for_are_those_shown() -> None:
    one = structure().views[0]
    assert alone(one)["layer"][0]["encoding"]["x"]["axis"]["values"] == [1, 2, 4, 8, 16]
    assert domain(view([3.0, 4.0], y=Axis("", zero=True)), "y")[0] == 0


def test_a_log_axis_says_so() -> None:
    drawn = alone(view([1.0, 100.0], y=Axis("loss", log=True)))
    assert drawn["layer"][0]["encoding"]["y"]["axis"]["title"] == ["loss (log)"]


@pytest.mark.parametrize(("low", "high"), [(0.004, 2.0), (3e-7, 1.0), (2.0, 8e5), (1e-9, 1e9)])
def test_ticks_of_a_log_axis_are_round_and_few(low: float, high: float) -> None:
    one = view([low, high], y=Axis("", log=True))
    ticks = alone(one)["layer"][0]["encoding"]["y"]["axis"]["values"]
    assert 2 <= len(ticks) <= 7
    assert all(f"{tick:e}"[0] in "125" and float(f"{tick:.0e}") == tick for tick in ticks)


def test_the_best_point_has_a_ring() -> None:
    one = view([1.0, 3.0, 2.0], best=1)
    drawn = alone(one)
    assert [row.get("best", False) for row in rows(drawn)] == [False, True, False]
    assert any(part.get("transform") == [{"filter": "datum.best"}] for part in drawn["layer"][0]["layer"])
    assert "datum.best" not in json.dumps(alone(view([1.0, 3.0])))


def test_panels_of_one_measure_share_its_scale_and_others_do_not() -> None:
    low, high = view([1.0, 2.0]), view([8.0, 9.0])
    for label, same in (("validation (%)", True), ("", False)):
        panels = [replace(one, y=Axis(label)) for one in (low, high)]
        drawn = spec(Chart("c", "t", panels, together=True))["concat"]
        ends = [panel["layer"][0]["encoding"]["y"]["scale"]["domain"] for panel in drawn]
        assert (ends[0] == ends[1]) == same


def test_a_name_stands_in_the_legend_once() -> None:
    line = Series("m = 1", [1, 2], [1.0, 2.0])
    two = Series("m = 2", [1, 2], [2.0, 3.0], color=1)
    one = View("v", "line", Axis("x"), Axis("y"), [line, replace(line, mark="dot"), two])
    assert [name for name, _, _ in legend_of(one)] == ["m = 1", "m = 2"]
    for layer in alone(one)["layer"]:
        scale = layer["layer"][1 if "line" in str(layer["layer"][0]["mark"]) else 0]["encoding"]["stroke"]["scale"]
        assert scale == {"domain": ["m = 1", "m = 2"], "range": PALETTE[:2]}


def test_nothing_below_zero_is_invented_on_a_log_scale() -> None:
    one = view(
        [1.0, 0.0, None, 2.0], "dot", Axis("", log=True), low=[-0.5, None, None, 1.0], high=[2.0, 1.0, None, 3.0]
    )
    drawn = alone(one)
    assert [row["y"] for row in rows(drawn)] == [1.0, 2.0]
    first = rows(drawn)[0]
    assert (first["low"], first["span"]) == (-0.5, "-0.5 to 2")  # the CSV and the tip tell it
    assert (first["from"], first["to"]) == (1.0, 2.0)  # the bar begins at the point
    texts = str([layer.get("transform") for layer in drawn["layer"][0]["layer"]])
    assert all(f"datum.{end} != datum.y" in texts for end in ("from", "to"))  # and has no cap there
    assert domain(one, "y")[0] > 0


def test_bars_stand_on_the_bottom_of_a_log_scale_and_on_zero_otherwise() -> None:
    for log in (True, False):
        one = view([1.0, 100.0], "bar", Axis("", log=log))
        bar = alone(one)["layer"][0]["layer"][0]
        assert bar["encoding"]["y2"]["datum"] == (domain(one, "y")[0] if log else 0)


def test_speedups_have_a_rule_at_one() -> None:
    assert spec(speedup())["layer"][-1]["mark"]["type"] == "rule"
    assert spec(regimes())["layer"][-1].get("mark") is None


def test_a_method_has_its_colour_and_the_papers_are_hollow() -> None:
    keys = {name: (color, paper) for name, color, paper in legend_of(regimes().views[0])}
    assert keys["RNS"] == (PALETTE[0], False)
    assert keys["RNS, paper"] == (PALETTE[0], True)
    points = spec(regimes())["layer"][0]["layer"][-1]["encoding"]
    assert points["fill"]["scale"]["range"][:2] == [PALETTE[1], "#ffffff"]
    assert points["stroke"]["scale"]["range"][:2] == [PALETTE[1]] * 2


def test_single_points_are_named_in_the_legend_and_own_categories_below() -> None:
    assert [name for name, _, _ in legend_of(costs().views[0])] == list(METHODS.values())
    assert legend_of(terms().views[0]) == legend_of(penalty().views[0]) == []
    domain_ = spec(penalty())["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert domain_ == [series.name for series in penalty().views[0].series]


def test_series_of_a_category_stand_side_by_side_in_order() -> None:
    encoding = spec(speedup())["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == ["88.0%", "89.0%", "90.0%"]
    assert encoding["xOffset"]["scale"]["domain"] == [series.name for series in speedup().views[0].series]
    assert "xOffset" not in spec(terms())["concat"][0]["layer"][0]["encoding"]


def test_a_star_has_an_edge_for_every_neighbour(tmp_path: Path) -> None:
    drawn = spec(star())
    edges = {row["x"]: (row["share"], row["turn"]) for row in rows(drawn)}
    assert edges == {"Ann (ok)": (1.0, 0.0), "Cem, Oslo (ok)": (0.25, 1 / 3), "Bob (fraud)": (0.5, 2 / 3)}
    hues = {row["x"]: row["hue"] for row in rows(drawn)}
    assert hues["Ann (ok)"] == hues["Cem, Oslo (ok)"] != hues["Bob (fraud)"]
    draw(star(), tmp_path / "star.svg")
    text = (tmp_path / "star.svg").read_text(encoding="utf-8")
    for label in ("Eva", "Ann (ok)", "Bob (fraud)", "raises it", "lowers it"):
        assert f">{label}<" in text
    nothing = replace(star().views[0], series=[Series("raises it", ["Ann (ok)"], [0.0])])
    assert [row["share"] for row in rows(alone(nothing))] == [0.0]


def test_files_have_labels_and_are_the_same_again(tmp_path: Path) -> None:
    write_charts(samplers(charts=[curves(), terms()]), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"curves.svg", "curves-seconds.svg", "curves-loss.svg", "terms.svg"}
    text = (tmp_path / "curves-loss.svg").read_text(encoding="utf-8")
    for label in ("ogbn-arxiv: through training", "training loss (log)", "Neighbour sampling", "epoch"):
        assert label in text
    draw(replace(curves(), views=curves().views[::-1]), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == text
    draw(regimes(), tmp_path / "a.png")
    draw(regimes(), tmp_path / "a.pdf")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(HandfulError, match=r"must end in \.svg, \.png, \.pdf"):
        draw(regimes(), tmp_path / "a.gif")
