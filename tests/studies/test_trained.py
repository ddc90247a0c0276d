"""Curves through training, how each run was configured, and runs of no study."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import handful as hf
from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.errors import RunError
from handful.studies.trained import (
    Trained,
    configurations,
    curve_charts,
    loose_findings,
    mean_curve,
    read_trained,
)
from handful.training.record import RunFolder
from handful.vocabulary import REGIMES, hues
from studies.smoke import GRAPH, check

SMALL = Experiment(GRAPH, hidden=4, layers=1, epochs=1, lr=0.01, seeds=(1, 2))


def line(epoch: int, val: float | None, seconds: float = 0.0, loss: float | None = 1.0) -> dict[str, Any]:
    return {"epoch": epoch, "val": val, "seconds": seconds, "loss": loss}


def read(folder: Path, name: str = "rns") -> Trained:
    found = read_trained(folder, name)
    assert found is not None
    return found


# -- curves -----------------------------------------------------------------------------------------------------------


def test_a_mean_curve_goes_as_far_as_every_seed() -> None:
    first = [line(2, 0.5, 1.0), line(4, 0.6, 2.0), line(6, 0.7, 3.0)]
    second = [line(2, 0.7, 3.0), line(4, 0.8, 4.0)]
    x, values = mean_curve([first, second], "seconds")
    assert x.tolist() == [2.0, 3.0]
    assert values.tolist() == [[0.5, 0.6], [0.7, 0.8]]
    epochs, _ = mean_curve([first, second], "epoch")
    assert epochs.tolist() == [2, 4]


def test_evaluations_without_a_number_are_passed_over() -> None:
    x, values = mean_curve([[line(1, None), line(2, 0.5)]], "epoch")
    assert (x.tolist(), values.tolist()) == ([2], [[0.5]])
    x, values = mean_curve([[line(1, 0.5)], []], "epoch")
    assert (x.shape, values.shape) == ((0,), (2, 0))
    assert mean_curve([], "epoch")[0].shape == (0,)


def test_a_chart_has_a_band_where_there_are_several_seeds(folder: Path) -> None:
    two = read(folder, "rns")
    one = replace(read(folder, "full"), histories=two.histories[:1])
    (chart,) = curve_charts([two, one])
    assert [view.name for view in chart.views] == ["seconds", "epochs", "loss"]
    band, plain = chart.views[1].series
    vals = 100 * np.array([[entry["val"] for entry in history] for history in two.histories])
    assert band.x == [1, 2, 3]
    assert band.y == pytest.approx(vals.mean(0).tolist())
    assert band.low == pytest.approx(vals.min(0).tolist())
    assert band.high == pytest.approx(vals.max(0).tolist())
    assert (plain.low, plain.high) == ([], [])
    assert (band.name, band.color, plain.name, plain.color) == ("RNS", 0, "Full graph", 1)
    losses = [entry["loss"] for entry in one.histories[0]]
    assert chart.views[2].series[1].y == pytest.approx(losses)


def test_the_best_evaluation_is_marked(folder: Path) -> None:
    run = read(folder)
    values = np.mean([[line["val"] for line in history] for history in run.histories], axis=0).tolist()
    seconds, epochs, loss = curve_charts([run])[0].views
    assert seconds.series[0].best == epochs.series[0].best == values.index(max(values))
    assert loss.series[0].best is None


def test_nine_lines_become_facets_with_a_colour_for_each_regime(folder: Path) -> None:
    run = read(folder)
    optimizers = ("SGD", "SGD+M", "Adam")
    nine = [replace(run, name=f"{r}-{o}", label=f"{REGIMES[r]}, {o}") for r in REGIMES for o in optimizers]
    charts = curve_charts(nine)
    assert [chart.name for chart in charts] == ["curves", "curves-epochs", "curves-loss"]
    for chart in charts:
        assert chart.together
        assert [view.name for view in chart.views] == [*optimizers]
        for view in chart.views:
            assert [series.name for series in view.series] == list(REGIMES.values())
            assert [series.color for series in view.series] == hues(list(REGIMES))
    ten = [replace(run, label=f"{model}, {how}") for model in "abcde" for how in ("Full graph", "RNS")]
    assert [view.name for view in curve_charts(ten)[0].views] == [*"abcde"]


def test_graphs_of_several_names_have_charts_of_their_own(folder: Path) -> None:
    run = read(folder)
    other = replace(run, config={**run.config, "split": "rh"})
    charts = curve_charts([run, other])
    assert [chart.name for chart in charts] == ["curves", "curves-1"]
    assert [chart.title.split(":")[0] for chart in charts] == [run.graph, f"{run.graph} (rh)"]


# -- configurations ---------------------------------------------------------------------------------------------------


def varied(run: Trained, name: str, **changes: Any) -> Trained:
    """The same run with other settings and options in its record."""
    config = dict(run.config)
    for part in ("options", "settings"):
        config[part] = {key: changes.get(key, value) for key, value in run.config[part].items()}
    config |= {key: changes[key] for key in ("sampler", "model") if key in changes}
    return replace(run, name=name, label=hf.vocabulary.title(name), config=config)


def test_what_is_shared_and_what_differs(folder: Path) -> None:
    run = read(folder)
    full = replace(varied(run, "full", sampler={"name": "full"}, dropout=0.1), seeds=(3,))
    shared, (table,) = configurations([run, full])
    assert table.head[1:] == ["dropout", "sampler"]
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[0][:2] == ["RNS", "0.5"]
    assert "parts = 4" in rows[0][2]
    assert rows[1] == ["Full graph", "0.1", "full"]
    assert (shared["model"], shared["hidden"], shared["epochs"], shared["lr"]) == ("sage", "4", "3", "0.01")
    assert shared["seeds"] == "1, 2, 3"
    assert "checkpoint seconds" not in shared  # it decides nothing
    assert not {"dropout", "sampler"} & set(shared)


def test_one_run_shares_all_and_none_shares_nothing(folder: Path) -> None:
    shared, tables = configurations([read(folder)])
    assert tables == []
    assert shared["training nodes"] == f"{int(hf.load(GRAPH).train_mask.sum()):,}"
    assert configurations([]) == ({}, [])


def test_of_different_models_options_that_one_lacks_are_dashes(folder: Path) -> None:
    run = read(folder)
    gat = replace(run, config={**run.config, "model": "gat", "options": {**run.config["options"], "heads": 1}})
    _, (table,) = configurations([run, gat])
    at = table.head.index("heads")
    assert [row[at].text for row in table.rows] == ["–", "1"]


# -- runs of no study -------------------------------------------------------------------------------------------------


def test_loose_runs_are_grouped_by_graph_and_those_of_a_finding_left_out(tmp_path: Path) -> None:
    SMALL.run(tmp_path / "m-16")
    SMALL.with_(sampler="full").run(tmp_path / "m-2")
    other = write_saved(tmp_path / "other-graph")
    Experiment(other, hidden=4, layers=1, epochs=1, seeds=(1,)).run(tmp_path / "other")
    graph = make_graph(100)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=4, layers=1)
    hf.fit(model, graph.replace(name="by hand"), RandomNodes(2), epochs=1, out=tmp_path / "fitted")
    SMALL.run(tmp_path / "study" / "rns")
    found, unreadable = loose_findings(tmp_path, [tmp_path / "study"])
    assert unreadable == {}
    by_graph = {finding.payload["graph"]: finding for finding in found}
    assert set(by_graph) == {hf.load(GRAPH).name, "other", "by hand"}
    two = by_graph[hf.load(GRAPH).name]
    assert [row[0].text for row in two.tables[0].rows] == ["m-2", "m-16"]
    assert sorted(row[1].rank for row in two.tables[0].rows) in ([1, 1], [1, 2])
    assert two.details[0].head[1:] == ["sampler"]
    (row,) = by_graph["by hand"].tables[0].rows
    assert (row[0].text, row[-1].text) == ("fitted", "42")
    for finding in found:
        check(finding)


def write_saved(path: Path) -> Path:
    hf.save(make_graph(100).replace(name="other"), path)
    return path


def test_a_run_that_has_not_ended_is_told(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    RunFolder(tmp_path / "run" / "seed-2").result.unlink()
    (found,), _ = loose_findings(tmp_path, [])
    assert "run" in found.words
    assert found.tables[0].rows[0][-1].text == "1"
    (tmp_path / "begun" / "seed-1").mkdir(parents=True)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "begun" / "config.json").write_text(json.dumps(config))
    assert read_trained(tmp_path / "begun", "begun") is None


def test_what_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    old = {
        "graph": {"name": "debian"},
        "model": "sage",
        "sampler": {"name": "rns"},
        "settings": {"epochs": 2},
        "seed": 1,
    }
    for place in ("old", "exp/seed-1"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.json").write_text(json.dumps(old))
        (tmp_path / place / "metrics.jsonl").write_text(json.dumps(line(1, 0.5)) + "\n")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text('{"format": 2, ')
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "config.json").write_text('{"format": 3}')
    found, unreadable = loose_findings(tmp_path, [])
    assert found == []
    assert set(unreadable) == {tmp_path / name for name in ("old", "exp/seed-1", "torn", "newer")}
    for name in ("old", "exp/seed-1"):
        assert "format None, not 2" in unreadable[tmp_path / name]
    assert "format 3" in unreadable[tmp_path / "newer"]
    assert "cannot be read" in unreadable[tmp_path / "torn"]
    with pytest.raises(RunError, match="format"):
        read_trained(tmp_path / "old", "old")
