"""Predictions: means over models, ids, labels by name, and files that hold what was predicted."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import handful as hf
from handful.predict import Prediction, choose_nodes, predict
from handful.training.assessment import Decision
from handful.training.inference import embed

NAMES = ("low", "mid", "high")
CLASSES = Decision("multiclass")


def a_graph(**fields: object) -> hf.Graph:
    rng = np.random.default_rng(0)
    given = {
        "x": rng.normal(size=(30, 5)).astype(np.float32),
        "y": np.where(np.arange(30) < 20, np.arange(30) % 3, -1),
        "train_mask": range(10),
        "val_mask": range(10, 15),
        "test_mask": range(15, 20),
        "ids": np.array([f"n{i}" for i in range(30)]),
        "class_names": NAMES,
    }
    return hf.Graph.from_edge_index(rng.integers(0, 30, (2, 80)), 30, **{**given, **fields}).to_undirected()


def models(count: int) -> list[hf.SAGE]:
    torch.manual_seed(0)
    return [hf.SAGE(5, 3, hidden=8, layers=2).eval() for _ in range(count)]


def test_probabilities_are_means_and_how_models_differ_is_told() -> None:
    graph, three = a_graph(), models(3)
    found = predict(three, graph, choose_nodes(graph, "all"), CLASSES, NAMES)
    each = np.stack([hf.infer(model, graph).softmax(1).numpy() for model in three])
    assert np.allclose(found.probabilities, each.mean(0), atol=1e-6)
    best = each.mean(0).argmax(1)
    assert found.predicted.tolist() == [NAMES[i] for i in best]
    rows = np.arange(30)
    assert found.spread is not None
    assert found.agree is not None
    assert np.allclose(found.spread, each[:, rows, best].std(0, ddof=1), atol=1e-6)
    assert np.allclose(found.agree, (each.argmax(2) == best).mean(0))
    one = predict(three[:1], graph, np.array([3]), CLASSES, NAMES)
    assert (one.spread, one.ids.tolist(), one.splits.tolist()) == (None, ["n3"], ["train"])


def test_labels_are_compared_by_name() -> None:
    graph = a_graph(class_names=("high", "odd", "low"))
    found = predict(models(1), graph, np.arange(6), CLASSES, NAMES)
    assert found.labels.tolist() == [2, -1, 0, 2, -1, 0]


def made(best: list[int], labels: list[int], sure: list[float]) -> Prediction:
    probabilities = np.full((len(best), 3), 0.1, np.float32)
    probabilities[np.arange(len(best)), best] = sure
    return Prediction(
        CLASSES, np.arange(len(best)), NAMES, probabilities, np.array(labels), np.array(["test"] * len(best))
    )


def test_what_it_would_change_comes_with_the_most_confident_first() -> None:
    found = made([0, 1, 2, 1], [0, 0, -1, 2], [0.9, 0.5, 0.9, 0.8])
    assert found.changed().ids.tolist() == [3, 1]
    assert found.judged() == {"test": {"nodes": 3, "accuracy": pytest.approx(1 / 3), "majority": pytest.approx(2 / 3)}}


def test_which_nodes() -> None:
    graph = a_graph()
    assert choose_nodes(graph, "unlabelled").tolist() == list(range(20, 30))
    assert choose_nodes(graph, "test").tolist() == list(range(15, 20))
    assert choose_nodes(graph.replace(y=None, class_names=None), "unlabelled").tolist() == list(range(30))
    numbered = a_graph(ids=np.arange(30) * 10)
    assert choose_nodes(numbered, [20, "0"]).tolist() == [2, 0]
    with pytest.raises(hf.HandfulError, match="2 of 3 ids are no nodes of the graph: x, 7"):
        choose_nodes(graph, ["n1", "x", 7])
    with pytest.raises(hf.HandfulError, match=r"nodes takes all, unlabelled, .* and ids\.txt is no file"):
        choose_nodes(graph, "ids.txt")


def test_a_file_of_ids(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("n4\n\nn2 \n")
    assert choose_nodes(a_graph(), str(tmp_path / "ids.txt")).tolist() == [4, 2]
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hf.HandfulError, match="is not a text file"):
        choose_nodes(a_graph(), tmp_path / "ids.txt")


def test_files_hold_what_was_predicted(tmp_path: Path) -> None:
    graph = a_graph(ids=np.array([f"é,{i}\n" for i in range(30)]))
    found = predict(models(2), graph, choose_nodes(graph, "all"), CLASSES, NAMES)
    with (tmp_path / "p.csv").open("w"):
        found.write(tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == found.ids.tolist()
    assert [row["predicted"] for row in rows] == found.predicted.tolist()
    assert [row["label"] for row in rows] == [NAMES[i] if i >= 0 else "" for i in found.labels]
    assert np.allclose([[float(row[f"p({name})"]) for name in NAMES] for row in rows], found.probabilities, atol=1e-6)
    table = pyarrow.parquet.read_table(found.write(tmp_path / "p.parquet"))
    assert table["id"].to_pylist() == found.ids.tolist()
    assert np.allclose(table["p(mid)"], found.probabilities[:, 1])
    with np.load(found.write(tmp_path / "p.npz"), allow_pickle=False) as arrays:
        assert np.array_equal(arrays["values"], found.values)
        assert arrays["classes"].tolist() == list(NAMES)
    with pytest.raises(hf.HandfulError, match=r"must end in \.csv, \.parquet or \.npz"):
        found.write(tmp_path / "p.txt")


def test_kept_columns_come_back_and_replace_none(tmp_path: Path) -> None:
    names = [f"Jörg {i}" for i in range(30)]
    kept = np.array([names, ["x"] * 30]).T
    graph = a_graph(kept=kept, schema={"kept": ["name", "label"]})
    found = predict(models(1), graph, choose_nodes(graph, "unlabelled"), CLASSES, NAMES)
    columns = found.columns()
    assert columns["name"].tolist() == names[20:]
    assert columns["label"].tolist() == [""] * 10
    assert columns["label (kept)"].tolist() == ["x"] * 10
    assert found.take(np.array([3])).columns()["name"].tolist() == ["Jörg 23"]
    assert found.table("nodes").head[:2] == ["Id", "name"]
    table = pyarrow.parquet.read_table(found.write(tmp_path / "p.parquet"))
    assert table["name"].to_pylist() == names[20:]


@pytest.mark.parametrize(
    ("name", "options"),
    [("sage", {}), ("gcn", {"output_projection": True}), ("gat", {}), ("sgformer", {}), ("graphland-sage", {})],
)
def test_embeddings_are_what_the_logits_are_made_of(name: str, options: dict[str, object]) -> None:
    graph = a_graph()
    torch.manual_seed(0)
    model = hf.make_model(name, 5, 3, hidden=8, **options).eval()
    found = embed(model, graph, chunk=7)
    assert found.shape == (30, 8)
    # The last module that gives logits, by hand: a Linear or a head on rows, or a convolution on the graph.
    if name in ("sgformer", "graphland-sage"):
        last = model.output(found)
    elif options:
        last = model.output_projection(found)
    else:
        last = model.layer(model.depth - 1, hf.samplers.full.full_adjacency(graph), found)
    assert torch.allclose(last, hf.infer(model, graph), atol=1e-5)


def test_of_two_classes_the_positive_one_from_the_threshold_on() -> None:
    graph = a_graph(y=np.arange(30) % 2, class_names=("fraud", "ok"))
    torch.manual_seed(0)
    model = hf.SAGE(5, 1, hidden=8, layers=2).eval()
    fraud = 1 - hf.infer(model, graph)[:, 0].sigmoid().numpy()
    found = predict([model], graph, np.arange(30), Decision("binary", 0, 0.3), ("fraud", "ok"))
    assert found.predicted.tolist() == ["fraud" if p >= 0.3 else "ok" for p in fraud]
    assert np.allclose(found.confidence, np.where(fraud >= 0.3, fraud, 1 - fraud), atol=1e-6)


def test_numbers_and_many_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=30).astype(np.float32)
    truth[20:] = np.nan
    graph = a_graph(y=truth, class_names=None, task="regression")
    torch.manual_seed(0)
    two = [hf.SAGE(5, 1, hidden=8, layers=2).eval() for _ in range(2)]
    each = np.stack([hf.infer(model, graph)[:, 0].numpy() for model in two])
    found = predict(two, graph, choose_nodes(graph, "all"), Decision("regression"))
    assert np.allclose(found.predicted, each.mean(0), atol=1e-6)
    assert found.spread is not None
    assert np.allclose(found.spread, each.std(0, ddof=1), atol=1e-6)
    assert found.judged()["test"]["error"] == pytest.approx(np.abs(each.mean(0) - truth)[15:20].mean(), rel=1e-4)
    assert list(found.columns()) == ["id", "predicted", "spread", "label", "split"]
    assert "Predicted" in found.table("numbers").head
    with pytest.raises(hf.HandfulError, match="have no probabilities"):
        _ = found.probabilities
    with pytest.raises(hf.HandfulError, match="only classes can differ"):
        found.changed()
    pair = a_graph(y=np.stack([truth, 2 * truth], 1), class_names=None, task="regression")
    torch.manual_seed(0)
    model = hf.SAGE(5, 2, hidden=8, layers=2).eval()
    found = predict([model], pair, choose_nodes(pair, "all"), Decision("regression"))
    assert np.allclose(found.predicted, hf.infer(model, pair).numpy())
    assert list(found.columns()) == ["id", "predicted(0)", "predicted(1)", "label(0)", "label(1)", "split"]
    error = np.abs(found.predicted - pair.y.numpy())[15:20].mean()  # type: ignore[union-attr]
    assert found.judged()["test"]["error"] == pytest.approx(error, rel=1e-4)
    assert "," in found.table("numbers").rows[0][1].text
    graph = a_graph(y=(rng.random((30, 3)) < 0.5).astype(np.float32), task="multilabel")
    model = models(1)[0]
    likely = hf.infer(model, graph).sigmoid().numpy()
    found = predict([model], graph, np.arange(30), Decision("multilabel"), NAMES)
    assert found.predicted.tolist() == [
        ";".join(n for n, p in zip(NAMES, row, strict=True) if p >= 0.5) for row in likely
    ]
    rows = found.write(tmp_path / "p.csv").read_text().splitlines()
    assert rows[0] == "id,predicted,label,split,p(low),p(mid),p(high)"
