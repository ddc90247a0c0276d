"""One trained experiment as a finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import handful as hf
from graphs import make_graph, make_numbers
from handful import Experiment, RandomNodes
from handful.experiment import Summary
from handful.studies.assessed import assessment_tables, describe_labels, say_summary, summary_finding
from handful.training.assessment import assess
from handful.training.metrics import METRICS
from studies.smoke import GRAPH, check


def test_a_training_shows_what_the_model_is_and_does(trained: Summary, folder: Path) -> None:
    finding = summary_finding(trained, folder)
    check(finding)
    best = hf.open_run(folder).result.seed
    assert finding.payload["assessment"]["seed"] == best
    assert [row[0].text for row in finding.tables[0].rows] == ["1", "2"]
    assert [row[2].text for row in finding.tables[0].rows] == [f"{100 * run.test:.2f}" for run in trained.runs]
    metrics = {row[0].text: row[-1].text for row in finding.tables[1].rows}
    assert metrics["accuracy (%)"] == f"{100 * hf.open_run(folder).result.test:.2f}"
    counts = [int(row[3].text) for row in finding.tables[2].rows]
    graph = trained.experiment.load(best)
    assert counts == np.bincount(graph.y[graph.test_mask], minlength=graph.num_classes).tolist()
    assert [chart.name for chart in finding.charts] == ["curves", "calibration"]
    shown = finding.charts[1].views[1].series[0]
    assert sum(shown.y) == sum(counts)
    assert set(shown.x) <= {f"{low}–{low + 10}" for low in range(0, 100, 10)}
    assert finding.details[-1].rows[-1][-1].text == finding.facts["parameters"]


def test_steps_that_were_not_made_are_told(tmp_path: Path) -> None:
    few = Experiment(GRAPH, sampler=RandomNodes(150), hidden=4, layers=1, epochs=1, seeds=(1,))
    summary = few.run(tmp_path)
    skipped = sum(run.skipped for run in summary.runs)
    assert skipped > 0  # parts of two nodes, of which half have no training node
    assert f"{skipped} batches" in say_summary(summary, METRICS["accuracy"])


def test_what_is_out_of_the_ordinary_is_told(trained: Summary) -> None:
    metric = METRICS["accuracy"]
    plain = say_summary(replace(trained, runs=trained.runs[:1]), metric)
    assert metric.with_unit(trained.runs[0].test) in plain
    odd = replace(trained.runs[0], diverged=7, best_epoch=5, prepare_seconds=12.5, test=float("nan"))
    said = say_summary(replace(trained, runs=[odd]), metric)
    assert "epoch 7" in said
    assert "12.5 s" in said
    assert "no test nodes" in said
    assert len(say_summary(trained, metric)) > len(plain)  # ± of two seeds


def test_what_labels_were_taken_for() -> None:
    graph = make_graph(60, classes=3)
    assert describe_labels(graph) == ""
    only = graph.replace(y=torch.ones(60, dtype=torch.int64), class_names=("a", "b", "c"))
    assert "one class, b" in describe_labels(only)
    two = make_graph(60, classes=2).replace(class_names=("fraud", "ok"), positive="fraud")
    assert "fraud" in describe_labels(two)
    assert "regression" in describe_labels(make_numbers())


def test_many_classes_have_a_list_of_confusions(trained: Summary, folder: Path) -> None:
    opened = hf.open_run(folder)
    found = assess(opened.model, trained.experiment.load(1), 0.5, trained.experiment.sampler)
    ranks = [[[cell.rank for cell in row[1:]] for row in table.rows] for table in assessment_tables(found, "here")]
    assert np.eye(3, dtype=int).tolist() in ranks  # the diagonal of the matrix
    many = replace(found, classes=[{**found.classes[0], "name": str(i)} for i in range(20)])
    many = replace(many, confusion=[[int(i == 3 and j == 4) for j in range(20)] for i in range(20)])
    rows = [[cell.text for cell in row] for table in assessment_tables(many, "") for row in table.rows]
    assert ["3", "4", "1"] in rows
