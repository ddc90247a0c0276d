"""Curves through training, how each run was configured, and runs of no study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handful as hf
from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.errors import RunError
from handful.studies.jobs import Outcome
from handful.studies.trained import (
    Trained,
    configurations,
    curve_charts,
    failures,
    graph_and_metric,
    loose_findings,
    mean_curve,
    of_outcomes,
    read_trained,
    setting,
    summary_finding,
    told_of_labels,
    trained_finding,
)
from handful.training.record import RunFolder
from handful.vocabulary import REGIMES, hues
from studies.smoke import GRAPH, check

SMALL = Experiment(GRAPH, hidden=8, layers=1, epochs=3, lr=0.01, seeds=(1, 2))


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


def test_a_chart_has_a_band_where_there_are_several_seeds(tmp_path: Path) -> None:
    SMALL.run(tmp_path / "two")
    SMALL.with_(seeds=(1,)).run(tmp_path / "one")
    two, one = read(tmp_path / "two", "rns"), read(tmp_path / "one", "full")
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


def test_the_best_evaluation_is_marked(tmp_path: Path) -> None:
    Experiment(GRAPH, hidden=4, layers=1, epochs=4, seeds=(1,)).run(tmp_path)
    run = read(tmp_path)
    values = [line["val"] for line in run.histories[0]]
    seconds, epochs, loss = curve_charts([run])[0].views
    assert seconds.series[0].best == epochs.series[0].best == values.index(max(values))
    assert loss.series[0].best is None


def test_nine_lines_become_facets_with_a_colour_for_each_regime(tmp_path: Path) -> None:
    Experiment(GRAPH, hidden=4, layers=1, epochs=2, seeds=(1,)).run(tmp_path)
    run = read(tmp_path)
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


def test_graphs_of_several_names_have_charts_of_their_own(tmp_path: Path) -> None:
    for name, graph in (("a", make_graph(100)), ("b", make_graph(120))):
        hf.save(graph.replace(name=name), tmp_path / f"{name}-graph")
        Experiment(tmp_path / f"{name}-graph", hidden=4, layers=1, epochs=1, seeds=(1,)).run(tmp_path / name)
    charts = curve_charts([read(tmp_path / name, name) for name in "ab"])
    assert [chart.name for chart in charts] == ["curves", "curves-1"]
    assert [chart.title.split(":")[0] for chart in charts] == ["a", "b"]


# -- configurations ---------------------------------------------------------------------------------------------------


def test_what_is_shared_and_what_differs(tmp_path: Path) -> None:
    SMALL.run(tmp_path / "rns")
    SMALL.with_(sampler="full", dropout=0.1, seeds=(3,)).run(tmp_path / "full")
    shared, (table,) = configurations([read(tmp_path / "rns", "rns"), read(tmp_path / "full", "full")])
    assert table.head == ["Run", "dropout", "sampler"]
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[0][:2] == ["RNS", "0.5"]
    assert rows[0][2].startswith("rns (parts = 4")
    assert rows[1] == ["Full graph", "0.1", "full"]
    assert (shared["model"], shared["hidden"], shared["epochs"], shared["lr"]) == ("sage", "8", "3", "0.01")
    assert shared["seeds"] == "1, 2, 3"
    assert "checkpoint seconds" not in shared  # it decides nothing
    assert not {"dropout", "sampler"} & set(shared)


def test_one_run_shares_all_and_none_shares_nothing(tmp_path: Path) -> None:
    SMALL.run(tmp_path)
    shared, tables = configurations([read(tmp_path)])
    assert tables == []
    assert shared["training nodes"] == f"{int(hf.load(GRAPH).train_mask.sum()):,}"
    assert configurations([]) == ({}, [])


def test_of_different_models_options_that_one_lacks_are_dashes(tmp_path: Path) -> None:
    SMALL.run(tmp_path / "sage")
    SMALL.with_(model="gat", hidden=8, layers=1).run(tmp_path / "gat")
    _, (table,) = configurations([read(tmp_path / "sage", "sage"), read(tmp_path / "gat", "gat")])
    at = table.head.index("heads")
    assert [row[at].text for row in table.rows] == ["–", "1"]


# -- outcomes ---------------------------------------------------------------------------------------------------------


def test_outcomes_that_failed_are_told_apart(tmp_path: Path) -> None:
    summary = SMALL.run(tmp_path / "rns").to_json()
    done = Outcome("rns", SMALL, tmp_path / "rns", summary)
    bad = Outcome("full", SMALL.with_(sampler="full"), tmp_path / "full", None, "no memory")
    dead = Outcome("saint", SMALL.with_(sampler="saint"), tmp_path / "saint", None)
    assert failures([bad, done, dead]) == {"full": "no memory", "saint": "it did not finish"}
    assert graph_and_metric([bad, done]) == (hf.load(GRAPH).name, "accuracy")
    assert graph_and_metric([bad]) == (GRAPH, "accuracy")
    assert [one.label for one in of_outcomes([bad, done], {"rns": "ours"})] == ["ours"]
    jobs = {"a": SMALL, "b": SMALL.with_(epochs=5)}
    assert setting(jobs) == "3 or 5 epochs · seeds 1, 2"
    found = trained_finding(
        "mine", [bad, done], title="T", words="W", head=["a"], rows=[[hf.finding.Cell("x")]], payload={"p": 1}
    )
    assert found.failed == ("full",)
    assert found.facts["model"] == "sage"
    assert [chart.name for chart in found.charts] == ["curves"]


def test_a_training_is_a_row_for_every_seed(tmp_path: Path) -> None:
    summary = SMALL.with_(sampler=RandomNodes(150)).run(tmp_path / "run")
    found = summary_finding(summary, tmp_path / "run")
    check(found, tmp_path / "page")
    assert [row[0].text for row in found.tables[0].rows] == ["1", "2"]
    assert [row[2].text for row in found.tables[0].rows] == [f"{100 * run.test:.2f}" for run in summary.runs]
    skipped = sum(run.skipped for run in summary.runs)
    assert skipped > 0  # parts of two nodes, of which half have no training node
    assert f"{skipped} batches made no step: they had no training node" in found.words


# -- runs of no study -------------------------------------------------------------------------------------------------


def test_a_training_shows_what_the_model_is_and_does(tmp_path: Path) -> None:
    summary = SMALL.run(tmp_path)
    finding = summary_finding(summary, tmp_path)
    titles = [table.title for table in finding.tables]
    best = hf.open_run(tmp_path).result.seed
    assert titles[1:3] == [f"Metrics, seed {best}", f"Classes of the test nodes, seed {best}"]
    metrics = {row[0].text: row[-1].text for row in finding.tables[1].rows}
    assert metrics["accuracy (%)"] == f"{100 * hf.open_run(tmp_path).result.test:.2f}"
    counts = [int(row[3].text) for row in finding.tables[2].rows]
    graph = SMALL.load(best)
    assert counts == np.bincount(graph.y[graph.test_mask], minlength=graph.num_classes).tolist()
    assert [chart.name for chart in finding.charts] == ["curves", "calibration"]
    assert f"over {sum(counts)} test nodes, seed {best}" in finding.charts[1].title
    shown = finding.charts[1].views[1].series[0]
    assert sum(shown.y) == sum(counts)
    assert set(shown.x) <= {f"{low}–{low + 10}" for low in range(0, 100, 10)}
    assert finding.details[-1].title == "Architecture"
    assert finding.details[-1].rows[-1][-1].text == finding.facts["parameters"]


def test_one_class_alone_is_said() -> None:
    graph = make_graph(60, classes=3)
    assert told_of_labels(graph) == ""
    only = graph.replace(y=torch.ones(60, dtype=torch.int64), class_names=("a", "b", "c"))
    assert told_of_labels(only) == "all labelled nodes are of one class, b: there is nothing to tell apart"


def test_the_sentence_of_the_positive_class_names_its_seed(tmp_path: Path) -> None:
    graph = make_graph(100, classes=2).replace(class_names=("fraud", "ok"), positive="fraud", name="shop")
    hf.save(graph, tmp_path / "shop")
    summary = Experiment(tmp_path / "shop", hidden=4, layers=1, epochs=1, seeds=(1, 2)).run(tmp_path / "run")
    words = summary_finding(summary, tmp_path / "run").words
    assert f"Of the best seed alone, {hf.open_run(tmp_path / 'run').result.seed}: fraud has precision" in words


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
    assert two.details[0].head == ["Run", "sampler"]
    (row,) = by_graph["by hand"].tables[0].rows
    assert (row[0].text, row[-1].text) == ("fitted", "42")
    for i, finding in enumerate(found):
        check(finding, tmp_path / "pages" / str(i))


def write_saved(path: Path) -> Path:
    hf.save(make_graph(100).replace(name="other"), path)
    return path


def test_a_run_that_has_not_ended_is_told(tmp_path: Path) -> None:
    SMALL.run(tmp_path / "run")
    RunFolder(tmp_path / "run" / "seed-2").result.unlink()
    (found,), _ = loose_findings(tmp_path, [])
    assert "Not ended: run." in found.words
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
        assert "was made by handful 0.1 (format 1); this version reads format 2" in unreadable[tmp_path / name]
    assert "a newer handful (format 3)" in unreadable[tmp_path / "newer"]
    assert "cannot be read" in unreadable[tmp_path / "torn"]
    with pytest.raises(RunError, match=r"handful 0\.1"):
        read_trained(tmp_path / "old", "old")
