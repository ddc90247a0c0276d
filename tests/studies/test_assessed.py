"""One trained experiment as a finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import handful as hf
from graphs import make_graph, make_numbers
from handful import Experiment, RandomNodes
from handful.datasets.splits import stratified_split
from handful.experiment import Summary
from handful.studies.assessed import assessment_tables, describe_labels, say_summary, summary_finding
from handful.training.assessment import Decision, assess, assessment, best_threshold
from handful.training.metrics import METRICS
from studies.smoke import GRAPH, check


def test_a_training_shows_what_the_model_is_and_does(trained: Summary, folder: Path) -> None:
    finding = summary_finding(trained, folder)
    check(finding)
    opened = hf.open_run(folder)
    best = opened.result.seed
    assert finding.payload["assessment"]["seeds"] == [1, 2]
    assert [row[0].text for row in finding.below[-1].rows] == ["1", "2"]
    assert [row[2].text for row in finding.below[-1].rows] == [f"{100 * run.test:.2f}" for run in trained.runs]
    metrics = {row[0].text: row[-1].text for row in finding.below[-2].rows}
    deployed = opened.prediction(nodes="test").judged()["test"]["accuracy"]
    assert metrics["accuracy (%)"] == f"{100 * deployed:.2f}"  # what is measured is what `predict` does
    low, high = finding.payload["assessment"]["interval"]
    assert low < deployed < high
    baselines = finding.payload["baselines"]
    blind = max((one for one in baselines if not one["sees_graph"]), key=lambda one: one["val"])["test"]
    assert "300 nodes" in finding.title
    assert f"accuracy {100 * deployed:.2f} %" in finding.title
    assert f"without the graph {100 * blind:.2f} %" in finding.title
    bars = [value for series in finding.charts[0].views[0].series for value in series.y]
    assert sorted(bars) == pytest.approx(sorted(100 * v for v in [deployed, *(o["test"] for o in baselines)]))
    assert [row[0].text for row in finding.tables[0].rows] == [one["name"] for one in baselines]
    assert len(baselines) == 6
    assert "baselines" not in summary_finding(trained, folder, baselines=False).payload
    counts = [int(row[3].text) for row in finding.tables[1].rows]
    graph = trained.experiment.load(best)
    assert counts == np.bincount(graph.y[graph.test_mask], minlength=graph.num_classes).tolist()
    assert [chart.name for chart in finding.charts] == ["added", "calibration", "curves"]
    shown = finding.charts[1].views[1].series[0]
    assert sum(shown.y) == sum(counts)
    assert set(shown.x) <= {f"{low}–{low + 10}" for low in range(0, 100, 10)}
    assert finding.facts["parameters"] == f"{hf.nn.parameter_count(opened.model):,}"


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
    y = graph.y.clone()
    y[graph.val_mask & (y == 2)] = 1
    assert describe_labels(graph.replace(y=y)) == "no validation node is of class 2"


def test_many_classes_have_a_list_of_confusions(trained: Summary, folder: Path) -> None:
    opened = hf.open_run(folder)
    found = assess(opened.model, trained.experiment.load(1), 0.5, trained.experiment.sampler)
    ranks = [[[cell.rank for cell in row[1:]] for row in table.rows] for table in assessment_tables(found, "here")]
    assert np.eye(3, dtype=int).tolist() in ranks  # the diagonal of the matrix
    many = replace(found, classes=[{**found.classes[0], "name": str(i)} for i in range(20)])
    many = replace(many, confusion=[[int(i == 3 and j == 4) for j in range(20)] for i in range(20)])
    rows = [[cell.text for cell in row] for table in assessment_tables(many, "") for row in table.rows]
    assert ["3", "4", "1"] in rows


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_mistakes_have_the_kept_columns(task: str) -> None:
    nodes = {"id": [f"n{i}" for i in range(12)], "name": [f"Ann {i}" for i in range(12)]}
    nodes |= {"true": [f"old {i}" for i in range(12)], "size": list(range(12)), "split": ["train", "val", "test"] * 4}
    nodes["label"] = [i % 2 for i in range(12)] if task == "classification" else [i / 7 for i in range(12)]
    edges = {"source": nodes["id"], "target": nodes["id"][::-1]}
    graph = hf.import_tables(edges, nodes, keep=("name", "true"), task=task)
    wrong = torch.tensor(nodes["label"], dtype=torch.float32)[:, None]
    wrong = 1 - 2 * wrong if task == "classification" else wrong + 1
    found = assessment(wrong, graph, Decision.on(graph))
    table = assessment_tables(found, "test")[-1]
    assert table.head[:4] == ["node", "name", "true (kept)", "true"]
    rows = {tuple(cell.text for cell in row[:3]) for row in table.rows}
    assert rows == {(f"n{i}", f"Ann {i}", f"old {i}") for i in (2, 5, 8, 11)}


def rare(path: Path) -> Path:
    """Two classes, one of them rare, with features that tell a little."""
    graph = make_graph(600, classes=2)
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.12).astype(np.int64)
    x = np.random.default_rng(1).normal(size=(600, 4)).astype(np.float32)
    x[:, 0] += 1.5 * y
    masks = stratified_split(torch.from_numpy(y), (0.4, 0.2, 0.4), 0)
    hf.save(graph.replace(x=x, y=y, class_names=("ok", "fraud"), positive="fraud", **masks), path)
    return path


def test_balanced_weights_do_not_reach_the_probabilities(tmp_path: Path) -> None:
    asked = Experiment(str(rare(tmp_path / "g")), hidden=8, layers=1, epochs=60, lr=0.02, seeds=(1, 2, 3))
    asked = asked.with_(class_weight="balanced")
    found = summary_finding(asked.run(tmp_path / "run"), tmp_path / "run")
    judged, opened = found.payload["assessment"], hf.open_run(tmp_path / "run")
    prediction = opened.prediction(nodes="test")
    p, is_fraud = prediction.probabilities[:, 1], prediction.labels == 1
    assert abs(p.mean() - is_fraud.mean()) < 3 * (p * (1 - p)).mean() ** 0.5 / len(p) ** 0.5 + 0.03
    assert judged["calibration_error"] < 0.1
    assert judged["threshold"] == pytest.approx(prediction.threshold, rel=1e-6)
    assert prediction.threshold < 0.3  # half of the weighted probability, and the rare class is a tenth
    taken = [[int(((prediction.labels == i) & (prediction.best == j)).sum()) for j in (0, 1)] for i in (0, 1)]
    assert judged["confusion"] == taken
    assert "threshold" in prediction.columns()
    own = opened.prediction(nodes="test", threshold=0.9)
    assert own.threshold == 0.9
    assert (own.best == 1).sum() <= (prediction.best == 1).sum()


def test_the_threshold_is_that_of_the_average(tmp_path: Path) -> None:
    asked = Experiment(str(rare(tmp_path / "g")), hidden=8, layers=1, epochs=20, lr=0.02, seeds=(1, 2), threshold="f1")
    summary_finding(asked.run(tmp_path / "run"), tmp_path / "run", baselines=False)
    opened = hf.open_run(tmp_path / "run")
    graph, val = asked.load(1), opened.prediction(nodes="val")
    outputs = torch.logit(torch.from_numpy(val.probabilities[:, 1]).double())[:, None]
    assert val.threshold == pytest.approx(best_threshold(outputs, graph), rel=1e-4)


def test_each_with_its_own_split_only_the_best_seed_is_judged(tmp_path: Path) -> None:
    asked = Experiment(GRAPH, split="random:50/25/25", hidden=4, layers=1, epochs=2, seeds=(1, 2))
    found = summary_finding(asked.run(tmp_path), tmp_path, baselines=False)
    assert found.payload["assessment"]["seeds"] == [hf.open_run(tmp_path).result.seed]


def test_a_model_that_says_one_class_says_so_first(tmp_path: Path) -> None:
    graph = hf.open_graph(rare(tmp_path / "g"))
    hf.save(graph.replace(x=torch.zeros(600, 1)), tmp_path / "blind")
    asked = Experiment(str(tmp_path / "blind"), hidden=4, layers=1, epochs=2, seeds=(1,))
    words = summary_finding(asked.run(tmp_path / "run"), tmp_path / "run").words
    assert words.startswith("The model predicts ok for all test nodes")
    assert "majority class" in words
