from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import yaml
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

from handful.datasets import prepared
from handful.datasets.graphland import read_graphland
from handful.datasets.registry import load
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS

N = 60


def raw() -> dict[str, Any]:
    """A known graph with every kind of feature, missing values, an unlabelled node, loops and repeated edges."""
    rng = np.random.default_rng(0)
    age = np.round(rng.gamma(2, 10, N), 1)
    age[[3, 17]] = np.nan
    share = np.round(rng.random(N), 2)
    share[[5, 9]] = np.nan
    share[10:14] = 0.25
    kind = rng.integers(0, 3, N).astype(float)
    kind[7] = np.nan
    y = rng.integers(0, 2, N).astype(float)
    y[4] = np.nan
    part = rng.permutation(N) % 4
    count, flag = rng.integers(0, 4, N), rng.integers(0, 2, N)
    return {
        "features": {"age": age, "count": count, "share": share, "kind": kind, "flag": flag},
        "y": y,
        "part": {"RL": part, "RH": (part + 1) % 4},
        "edges": np.concatenate([rng.integers(0, N, (150, 2)), [[2, 2], [0, 1], [0, 1], [1, 0]]]),
        "info": {
            "dataset_name": "tolokers-2",
            "task": "binary_classification",
            "metric": "AP",
            "target_name": "banned",
            "graph_is_directed": False,
            "numerical_features_names": ["age", "count", "share"],
            "fraction_features_names": ["share"],
            "categorical_features_names": ["kind", "flag"],
        },
    }  # fmt: skip


def text(value: Any) -> str:
    return "" if value != value else str(value)


def write(folder: Path, known: dict[str, Any] | None = None) -> Path:
    known = known or raw()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "info.yaml").write_text(yaml.safe_dump(known["info"]))
    features = known["features"]
    rows = [",".join(["node_id", *features])]
    rows += [",".join([str(i), *(text(column[i]) for column in features.values())]) for i in range(N)]
    (folder / "features.csv").write_text("\n".join(rows) + "\n")
    (folder / "targets.csv").write_text(
        "node_id,banned\n" + "".join(f"{i},{text(v)}\n" for i, v in enumerate(known["y"]))
    )
    (folder / "edgelist.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in known["edges"]))
    for split, part in known["part"].items():
        lines = "".join(f"{i},{p == 0},{p == 1},{p > 1}\n" for i, p in enumerate(part))
        (folder / f"split_masks_{split}.csv").write_text("node_id,train,val,test\n" + lines)
    return folder


def expected_features(known: dict[str, Any]) -> np.ndarray:
    """GraphLand's own preprocessing, by scikit-learn: transform first, then fill."""
    columns = {name: np.asarray(column, np.float32)[:, None] for name, column in known["features"].items()}
    numerical = np.concatenate([columns["age"], columns["count"]], axis=1)
    transform = QuantileTransformer(output_distribution="normal", subsample=None, random_state=0, n_quantiles=N)
    numerical = transform.fit(numerical).transform(numerical.copy())
    numerical = SimpleImputer(strategy="most_frequent").fit_transform(numerical)
    fraction = SimpleImputer(strategy="most_frequent").fit_transform(columns["share"])
    encoder = OneHotEncoder(drop="if_binary", sparse_output=False, dtype=np.float32)
    categorical = encoder.fit_transform(np.concatenate([columns["kind"], columns["flag"]], axis=1))
    return np.concatenate([numerical, fraction, categorical], axis=1)


def test_a_data_set_in_its_own_layout(tmp_path: Path) -> None:
    known = raw()
    graph, splits = read_graphland(write(tmp_path / "g", known), "tolokers-2")
    assert graph.x is not None
    np.testing.assert_allclose(graph.x.numpy(), expected_features(known), rtol=1e-5, atol=1e-6)
    pairs = {(u, v) for u, v in known["edges"].tolist() if u != v}
    assert {(u, v) for u, v in graph.edge_index.T.tolist()} == pairs | {(v, u) for u, v in pairs}
    assert graph.num_edges == len(pairs | {(v, u) for u, v in pairs})
    assert graph.undirected
    assert not graph.has_loops
    assert graph.metric == "average_precision"
    assert graph.y is not None
    assert graph.y.tolist() == [-1 if v != v else int(v) for v in known["y"]]
    for split, part in known["part"].items():
        labelled = known["y"] == known["y"]
        for mask, chosen in zip(MASKS, (part == 0, part == 1, part > 1), strict=True):
            assert splits[split.lower()][mask].tolist() == (chosen & labelled).tolist()


def test_by_name_with_both_splits(tmp_path: Path) -> None:
    write(tmp_path / "unzipped" / "tolokers-2")
    (tmp_path / "tolokers-2").mkdir()
    made = shutil.make_archive(str(tmp_path / "tolokers-2" / "tolokers-2"), "zip", tmp_path / "unzipped", "tolokers-2")
    low, high = load("tolokers-2", root=tmp_path), load("tolokers-2", split="rh", root=tmp_path)
    assert low.train_nodes.tolist() != high.train_nodes.tolist()
    assert low.num_edges == high.num_edges
    Path(made).unlink()
    assert load("tolokers-2", split="rl", root=tmp_path).train_nodes.tolist() == low.train_nodes.tolist()
    with pytest.raises(DatasetError, match="there is no split 'th'"):
        load("tolokers-2", split="th", root=tmp_path)


def test_by_name_from_files_placed_by_hand(tmp_path: Path) -> None:
    write(tmp_path / "artnet-exp")
    assert load("artnet-exp", root=tmp_path).num_nodes == N


def test_many_classes_are_measured_by_accuracy(tmp_path: Path) -> None:
    known = raw()
    known["info"]["task"] = "multiclass_classification"
    known["y"] = np.arange(N) % 5.0
    graph, _ = read_graphland(write(tmp_path / "g", known), "web-topics")
    assert (graph.metric, graph.num_classes) == ("accuracy", 5)


def test_a_column_without_values_is_zeros(tmp_path: Path) -> None:
    known = raw()
    known["features"]["age"] = np.full(N, np.nan)
    graph, _ = read_graphland(write(tmp_path / "g", known), "tolokers-2")
    assert graph.num_features == read_graphland(write(tmp_path / "h"), "tolokers-2")[0].num_features
    assert not graph.x[:, 0].any()


def change(path: Path, old: str, new: str) -> None:
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("info.yaml", "target_name: banned", "target: banned", r"info\.yaml cannot be read .*target_name"),
        ("info.yaml", "task: binary_classification", "task: clustering", "the task is clustering"),
        ("info.yaml", "task: binary", "task: [binary", r"info\.yaml cannot be read"),
        ("features.csv", "age", "years", r"features\.csv has no column 'age': its columns are node_id, years"),
        ("features.csv", "\n5,", "\n5,1,", r"features\.csv, row 7: 7 columns where there should be 6"),
        ("targets.csv", "banned", "label", r"targets\.csv has no column 'banned'"),
        ("targets.csv", "\n59,", "\n60,0\n59,", r"targets\.csv has 61 rows"),
        ("targets.csv", "\n0,", "\n0,0.5\n0,", r"targets\.csv has 61 rows"),
        ("edgelist.csv", "\n2,2\n", "\n2,60\n", "edge 150 .* 60"),
        ("edgelist.csv", "\n2,2\n", "\n2\n", r"edgelist\.csv, row 152: 1 columns where there should be 2"),
        ("edgelist.csv", "\n2,2\n", "\n2,x\n", r"edgelist\.csv, row 152: 'x' is not a whole number"),
        ("edgelist.csv", "\n2,2\n", "\n2,\n", r"edgelist\.csv, row 152: a value is missing"),
        ("split_masks_RL.csv", "train", "training", r"split_masks_RL\.csv has no column 'train'"),
        ("split_masks_RH.csv", "\n59,", "\n59,True,False,False\n59,", r"split_masks_RH\.csv has 61 rows"),
    ],
)
def test_broken_files(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    folder = write(tmp_path / "g")
    change(folder / file, old, new)
    with pytest.raises(HandfulError, match=message) as caught:
        read_graphland(folder, "tolokers-2")
    assert "\n" not in str(caught.value)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "g")
    (folder / "edgelist.csv").write_text("source,target\n")
    with pytest.raises(DatasetError, match=r"edgelist\.csv has no rows"):
        read_graphland(folder, "g")
    (folder / "edgelist.csv").unlink()
    with pytest.raises(DatasetError, match=r"edgelist\.csv does not exist"):
        read_graphland(folder, "g")


def test_without_network_the_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(prepared, "urlopen", refuse)
    with pytest.raises(DatasetError, match=r"put it at .*web-fraud/web-fraud\.zip"):
        load("web-fraud", root=tmp_path)


def test_a_number_to_predict(tmp_path: Path) -> None:
    known = raw()
    known["info"] |= {"task": "regression", "metric": "R2"}
    known["y"] = known["y"] * 1.5 + 0.25
    graph, splits = read_graphland(write(tmp_path / "g", known), "hm-prices")
    assert (graph.task, graph.metric, graph.num_outputs) == ("regression", "r2", 1)
    np.testing.assert_allclose(graph.y, known["y"], rtol=1e-6)
    assert not splits["rh"]["train_mask"][4]  # its number is not known
    assert graph.replace(**splits["rh"]).require_training()
    plain, _ = read_graphland(tmp_path / "g", "hm-prices")
    other, _ = read_graphland(tmp_path / "g", "avazu-ctr")  # where fractions are transformed like other numbers
    assert bool((plain.x != other.x).any())


def test_of_two_classes_the_second_is_the_positive_one_however_rare(tmp_path: Path) -> None:
    known = raw()
    known["y"] = np.where(np.isnan(known["y"]), np.nan, (np.arange(N) % 5 > 0).astype(float))
    graph, _ = read_graphland(write(tmp_path / "g", known), "tolokers-2")
    assert int((graph.y == 0).sum()) < int((graph.y == 1).sum())
    assert graph.positive == 1
