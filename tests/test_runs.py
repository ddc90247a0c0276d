"""Run folders opened again: by experiment or by seed, in another process, ended or not, of this version or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.nn import GraphSAGE

import handful as hf
from handful.experiment import SUMMARY
from handful.graph import fingerprint
from handful.runs import refit, run_folders
from handful.studies.assessed import summary_finding
from handful.studies.explain import moved_by
from handful.training.metrics import METRICS, Metric
from handful.training.record import load_model
from scripts import script
from small import BreakOff, small_sage, timeless

EXPERIMENT = hf.Experiment(
    "synthetic?nodes=100&degree=4", hidden=8, layers=2, dropout=0.3, epochs=3, lr=0.01, seeds=(1, 2, 3)
)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> hf.Summary:
    return EXPERIMENT.run(tmp_path_factory.mktemp("runs") / "out")


@pytest.fixture(scope="module")
def out(summary: hf.Summary) -> Path:
    return Path(str(summary.runs[0].dir)).parent


def test_it_has_what_the_experiment_came_to(summary: hf.Summary, out: Path) -> None:
    opened = hf.open_run(out)
    assert opened.experiment == EXPERIMENT
    assert opened.results == summary.runs
    best = max(summary.runs, key=lambda run: run.val)
    assert opened.result.seed == best.seed
    assert timeless(opened.history) == timeless(best.history)
    models = opened.models()
    assert len(models) == 3
    graph = EXPERIMENT.load(best.seed)
    assert torch.equal(hf.infer(opened.model, graph), hf.infer(models[opened.best], graph))
    assert not opened.model.training


def test_the_lowest_is_best_where_the_metric_says_so(
    summary: hf.Summary, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METRICS, "accuracy", Metric(METRICS["accuracy"].function, higher_is_better=False))
    assert hf.open_run(out).result.val == min(run.val for run in summary.runs)


def test_a_seeds_folder_opens_alone(summary: hf.Summary, out: Path) -> None:
    for run in summary.runs:
        opened = hf.open_run(out / f"seed-{run.seed}")
        assert opened.experiment == EXPERIMENT.with_(seeds=(run.seed,))
        assert opened.results == [run]


@pytest.mark.slow
def test_another_process_finds_the_model_as_training_left_it(tmp_path: Path) -> None:
    graph = hf.load(EXPERIMENT.graph)
    model = small_sage(graph)
    hf.fit(model, graph, hf.RandomNodes(2), epochs=3, lr=0.01, out=tmp_path)
    code = (
        "import sys, handful as hf; from handful.graph import fingerprint; opened = hf.open_run(sys.argv[1]);"
        "print(fingerprint(hf.infer(opened.model, hf.load(sys.argv[2]))), opened.experiment, opened.result.best_epoch)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), EXPERIMENT.graph]
    found = subprocess.run(command, capture_output=True, text=True)
    best = hf.open_run(tmp_path).result.best_epoch
    assert found.stdout.split() == [fingerprint(hf.infer(model, graph)), "None", str(best)], found.stderr


def test_seeds_that_have_not_ended_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(tmp_path, callbacks=[BreakOff(1, seed=2)])
    opened = hf.open_run(tmp_path)
    assert [run.seed for run in opened.results] == [1]
    assert opened.experiment == EXPERIMENT
    assert [folder.path.name for folder in run_folders(tmp_path)] == ["seed-1", "seed-2", "seed-3"]


def table_run(folder: Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]], Path]:
    """An edge list and a node table with the ids 0 to 79, and a run that was trained on them."""
    rng = np.random.default_rng(0)
    edges = {"source": rng.integers(0, 80, 300).tolist(), "target": rng.integers(0, 80, 300).tolist()}
    nodes = {"id": list(range(80)), "age": rng.normal(40, 9, 80).tolist(), "label": ["a", "b"] * 40}
    hf.import_tables(edges, nodes, out=folder / "graph")
    experiment = hf.Experiment(str(folder / "graph"), hidden=4, layers=2, epochs=1, lr=0.01, seeds=(1,))
    experiment.run(folder / "run")
    return edges, nodes, folder / "run"


def test_tables_in_memory_are_encoded_as_in_training(tmp_path: Path) -> None:
    edges, nodes, folder = table_run(tmp_path)
    run = hf.open_run(folder)
    nodes["age"][0] = 300.0
    said: list[str] = []
    graph = run.load(edges, nodes, say=said.append)
    own = hf.load(tmp_path / "graph")
    assert torch.equal(graph.x[1:], own.x[1:])
    assert graph.x[0, 0] > 10
    assert run.prediction(graph).ids.tolist() == nodes["id"]


@pytest.mark.slow
def test_the_service_of_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("fastapi.testclient")
    edges, nodes, folder = table_run(tmp_path)
    monkeypatch.setenv("RUN", str(folder))
    service = client.TestClient(script("serve", "examples").app)
    answer = service.post("/predict", json={"edges": edges, "nodes": nodes})
    assert answer.status_code == 200
    assert answer.json()["id"] == nodes["id"]
    assert answer.json()["predicted"] == hf.open_run(folder).predict().tolist()
    wrong = service.post("/predict", json={"edges": edges, "nodes": {"id": nodes["id"]}})
    assert wrong.status_code == 422
    assert "age" in wrong.json()["detail"]


@pytest.mark.parametrize("inside", ["", "seed-1"])
def test_nothing_that_has_ended_is_an_error(tmp_path: Path, inside: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(tmp_path, callbacks=[BreakOff(1)])
    with pytest.raises(hf.RunError, match="has ended: resume it first"):
        hf.open_run(tmp_path / inside)


def test_no_run_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(hf.RunError, match="holds no run: give the folder that a training was written to"):
            hf.open_run(path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"graph": "debian", "sampler": {}, "settings": {}}, r"another folder, or use the version that made it"),
        ({"format": 3, "graph": "debian"}, r"format 3, not 2"),
        ({"format": 2, "split": None, "graph": "debian"}, "not an experiment of this version of handful"),
        ({"model_type": "other"}, "is not the configuration of a run"),
        ([1, 2], "does not hold a JSON object"),
        ("{", "cannot be read"),
    ],
)
def test_what_this_version_cannot_read_is_said(tmp_path: Path, config: Any, words: str) -> None:
    (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    (tmp_path / "result.json").write_text('{"val": 0.5, "test": 0.5}')
    with pytest.raises(hf.RunError, match=words):
        hf.open_run(tmp_path)


def test_a_result_of_another_version_is_said(tmp_path: Path) -> None:
    EXPERIMENT.with_(seeds=(1,)).run(tmp_path)
    (tmp_path / "seed-1" / "result.json").write_text('{"val": 0.5, "test": 0.5, "place": 3}')
    with pytest.raises(hf.RunError, match="not a result of this version of handful"):
        _ = hf.open_run(tmp_path).results


def test_a_module_of_others_has_results_but_cannot_be_made_again(tmp_path: Path) -> None:
    graph = hf.load(EXPERIMENT.graph)
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 8, 2, graph.num_classes)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=2, out=tmp_path)
    opened = hf.open_run(tmp_path)
    assert opened.result == run
    with pytest.raises(hf.RunError, match=r"does not say how its model is made: make the model, and use load_weights"):
        _ = opened.model
    again = GraphSAGE(graph.num_features, 8, 2, graph.num_classes)
    hf.load_weights(again, tmp_path)
    assert torch.equal(hf.infer(again, graph), hf.infer(model, graph))


# -- the Hugging Face Hub ---------------------------------------------------------------------------------------------


def fake_hub(cache: Path) -> ModuleType:
    """``huggingface_hub`` with the file layout of its cache: blobs, and snapshots of links to them."""

    def snapshot_download(name: str) -> str:
        home = cache / f"models--{name.replace('/', '--')}"
        if not home.exists():
            raise FileNotFoundError(f"404: {name}")
        return str(home / "snapshots" / (home / "refs" / "main").read_text())

    module = ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    return module


def upload(folder: Path, cache: Path, name: str) -> None:
    home = cache / f"models--{name.replace('/', '--')}"
    (home / "blobs").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("abc123")
    for number, file in enumerate(one for one in folder.rglob("*") if one.is_file()):
        blob, link = home / "blobs" / str(number), home / "snapshots" / "abc123" / file.relative_to(folder)
        blob.write_bytes(file.read_bytes())
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)


def test_a_repository_of_the_hub_opens_like_its_folder(
    summary: hf.Summary, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(out, tmp_path, "ada/graphs")
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake_hub(tmp_path))
    opened = hf.open_run("ada/graphs")
    assert opened.result.test == hf.open_run(out).result.test
    assert opened.experiment == summary.experiment
    with pytest.raises(hf.RunError, match=r"ada/nothing cannot be read \(404"):
        hf.open_run("ada/nothing")


def test_a_missing_folder_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(hf.RunError, match=r"handful\[hub\]"):
        hf.open_run("ada/graphs")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(hf.RunError, match="holds no run: give the folder that"):
        hf.open_run("runs/typo")


def test_a_refit_learns_from_all_labels(tmp_path: Path) -> None:
    named = "synthetic?nodes=200&degree=6&features=8&classes=3"
    asked = hf.Experiment(named, hidden=8, layers=2, epochs=4, patience=2, lr=0.01, seeds=(1, 2))
    asked.run(tmp_path / "run")
    opened = hf.open_run(tmp_path / "run")
    before = opened.predict_proba()
    said = refit(opened)
    best = sorted(run.best_epoch for run in opened.results)
    epochs = round(sum(best) / 2)
    assert f"{epochs} epochs" in said
    graph = hf.load(named)
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    whole = graph.replace(train_mask=~none, val_mask=none, test_mask=none)
    runs = [asked.with_(epochs=epochs, patience=None, evaluate_every=epochs).fit(whole, seed) for seed in (1, 2)]
    expected = np.mean([torch.softmax(hf.infer(run.model, graph), 1).numpy() for run in runs], axis=0)
    after = hf.open_run(tmp_path / "run").predict_proba()
    assert np.allclose(after, expected, atol=1e-5)
    assert not np.allclose(after, before, atol=1e-3)


def test_a_refit_predicts_with_all_labels_and_its_own_class_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, nodes = np.r_[rng.choice(3, 150, p=(0.6, 0.3, 0.1)), rng.choice(3, 150, p=(0.1, 0.3, 0.6))], np.arange(300)
    masks = {"train_mask": nodes < 150, "val_mask": (nodes >= 150) & (nodes < 220), "test_mask": nodes >= 220}
    ends = rng.integers(0, 300, (2, 900))
    graph = hf.Graph.from_edge_index(ends, 300, x=rng.normal(size=(300, 4)), y=y, **masks).to_undirected()
    how = {"hidden": 8, "layers": 2, "epochs": 3, "lr": 0.01, "sampler": hf.RandomNodes(2), "label_features": "yes"}
    saved = hf.save(graph, tmp_path / "graph")
    asked = hf.Experiment(saved, **how, class_weight="balanced", seeds=(1, 2))  # type: ignore[arg-type]
    summary_finding(asked.run(tmp_path / "run"), tmp_path / "run", baselines=False)
    before = hf.open_run(tmp_path / "run").decision
    refit(hf.open_run(tmp_path / "run"))
    opened = hf.open_run(tmp_path / "run")
    counts, none = np.bincount(y, minlength=3), torch.zeros(300, dtype=torch.bool)
    weights = counts.sum() / (3 * counts)
    assert opened.decision.class_weight == pytest.approx(weights.tolist())
    assert opened.decision.class_weight != before.class_weight
    whole = graph.replace(train_mask=~none, val_mask=none, test_mask=none)
    outputs = [hf.infer(load_model(folder.path), whole) - torch.tensor(np.log(weights)) for folder in opened.deployed]
    expected = np.mean([torch.softmax(before.scale * one, 1).numpy() for one in outputs], axis=0)
    assert np.allclose(opened.predict_proba(), expected, atol=1e-5)
    assert set(opened.prediction(nodes="test").splits) == {"test"}
    assert moved_by(opened, graph, 7, {})[1] == pytest.approx(100 * expected[7].max(), abs=1e-3)
    (tmp_path / "run" / "refit" / SUMMARY).unlink()  # as after a kill: the models before the refit predict
    assert [folder.path for folder in hf.open_run(tmp_path / "run").deployed] == [f.path for f in opened.folders]
    assert hf.open_run(tmp_path / "run").decision == before


def test_a_run_of_fit_decides_by_the_weights_of_its_loss(tmp_path: Path) -> None:
    graph = hf.load("synthetic?nodes=300&degree=6&features=8&classes=2")
    for name, given, weights in (("a", [1.0, 9.0], (1.0, 9.0)), ("b", "none", None)):
        how = {"options": {"hidden": 4, "layers": 1}, "epochs": 1, "class_weight": given}
        hf.fit("sage", graph, hf.RandomNodes(2), **how, out=tmp_path / name)  # type: ignore[arg-type]
        assert hf.open_run(tmp_path / name).decision.class_weight == weights


def test_a_run_of_an_experiment_decides_by_the_weights_of_its_loss(tmp_path: Path) -> None:
    named = "synthetic?nodes=300&degree=6&features=8&classes=2"
    hf.Experiment(named, hidden=8, layers=2, epochs=5, lr=0.01, seeds=(1,), class_weight="balanced").run(tmp_path)
    opened, graph = hf.open_run(tmp_path), hf.load(named)
    counts = np.bincount(graph.y[graph.train_mask], minlength=2)
    weights = counts.sum() / (2 * counts)
    assert opened.decision.class_weight == pytest.approx(weights.tolist())
    weighed = torch.sigmoid(hf.infer(opened.model, graph)).squeeze(1).numpy()
    odds = weighed / (1 - weighed) * weights[0] / weights[1]
    assert np.allclose(opened.predict_proba()[:, 1], odds / (1 + odds), atol=1e-5)
    assert np.array_equal(opened.predict().astype(int), weighed >= 0.5)
