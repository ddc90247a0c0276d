"""The data sets of GraphLand with their official RL and RH masks: seven classification tasks, which the paper uses, and
seven regression tasks.

scikit-learn preprocesses the features as in GraphLand's own code:

- Numerical features: a quantile transform to a normal distribution. Missing values are replaced by the most frequent
  value *after* the transform. PyG's ``GraphLandDataset`` replaces them *before* the transform, so its features can
  differ.
- Fractions: unchanged, except that missing values are replaced by the most frequent value. In ``avazu-ctr`` and
  ``artnet-views``, fractions are treated as numerical features.
- Categories: one-hot; a missing value is one more category. A feature with two categories is one column.

Self-loops and repeated edges are dropped, and the graph is undirected.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from handful.datasets.arrays import whole
from handful.datasets.prepared import Archive, Built, published
from handful.datasets.registry import Source
from handful.datasets.splits import Masks
from handful.datasets.tables import TableFile, read_matrix
from handful.errors import DatasetError, blaming, readable
from handful.graph import MASKS, Graph

URL = "https://zenodo.org/records/16895532/files"
SPLITS = ("rl", "rh")
QUANTILES = 1000


LISTS = ("numerical_features_names", "fraction_features_names", "categorical_features_names")
FRACTIONS_AS_NUMBERS = ("avazu-ctr", "artnet-views")
TASKS: dict[str, dict[str, Any]] = {
    "binary_classification": {"metric": "average_precision", "positive": 1, "num_classes": 2},
    "multiclass_classification": {"metric": "accuracy"},
    "regression": {"metric": "r2", "task": "regression"},
}
"""The ``task`` of a ``Graph`` for each task name of GraphLand."""


def read_graphland(folder: Path, name: str) -> Built:
    """Read the graph and its splits ``rl`` and ``rh`` from ``folder``, in GraphLand's layout."""
    info = _info(folder / "info.yaml")
    if info["task"] not in TASKS:
        raise DatasetError(f"{folder}: the task is {info['task']}, and not one of {', '.join(TASKS)}")
    x = _features(TableFile.open(folder / "features.csv").read(), info, name in FRACTIONS_AS_NUMBERS)
    y = _labels(TableFile.open(folder / "targets.csv").read(count=len(x)), info)
    edges = read_matrix(folder / "edgelist.csv", np.int64, columns=2)
    with blaming(folder):
        graph = Graph.from_edge_index(edges, len(x), x=x, y=y, name=name, **TASKS[info["task"]])
    graph = graph.without_loops().to_undirected().coalesce()
    return graph, {split: _split(folder / f"split_masks_{split.upper()}.csv", y) for split in SPLITS}


def _info(path: Path) -> dict[str, Any]:
    with readable(path, "it is not GraphLand's file, or PyYAML is missing: pip install 'handful[graphland]'"):
        import yaml  # type: ignore[import-untyped]

        info = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
        for key in LISTS:
            info[key] = [str(name) for name in info[key] or ()]
        return {**info, "task": str(info["task"]), "target_name": str(info["target_name"])}


def _labels(rows: TableFile, info: dict[str, Any]) -> np.ndarray:
    """The labels: regression targets (NaN if unknown), or classes (-1 if unknown)."""
    target = info["target_name"]
    values = rows.numbers(target, missing=True)
    if info["task"] == "regression":
        return values.astype(np.float32)
    return whole(np.where(np.isnan(values), -1, values), f"{rows.path}: '{target}'")


def _split(path: Path, y: np.ndarray) -> Masks:
    rows = TableFile.open(path).read(count=len(y))
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return {mask: torch.from_numpy((rows.numbers(mask.removesuffix("_mask")) != 0) & known) for mask in MASKS}


# -- features -------------------------------------------------------------------------------------------------------


def _features(rows: TableFile, info: dict[str, Any], fractions_as_numbers: bool = False) -> np.ndarray:
    """The preprocessed features, float32: first the numerical features, then the fractions, then the categories."""
    categorical, fractions = info["categorical_features_names"], info["fraction_features_names"]
    numerical = [name for name in info["numerical_features_names"] if name not in set(fractions)]
    if fractions_as_numbers:
        numerical, fractions = [*numerical, *fractions], []
    names = [*numerical, *fractions, *categorical]
    if not names:
        raise DatasetError(f"{rows.path} has none of the features that info.yaml names")
    values = np.stack([rows.numbers(name, missing=True) for name in names], axis=1).astype(np.float32)
    with readable(rows.path, "its features need scikit-learn: pip install 'handful[graphland]'"):
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

        marks = min(QUANTILES, len(values))
        normal = QuantileTransformer(n_quantiles=marks, output_distribution="normal", subsample=None, random_state=0)
        fill = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
        one_hot = OneHotEncoder(drop="if_binary", sparse_output=False)
        first, second, third = np.split(np.arange(len(names)), np.cumsum([len(numerical), len(fractions)]))
        encoder = make_column_transformer((make_pipeline(normal, fill), first), (fill, second), (one_hot, third))
        return np.asarray(encoder.fit_transform(values), np.float32)


def _source(name: str, nodes: int | None, edges: int | None, classes: int | None, description: str) -> Source:
    """Make the source of a data set. If ``classes`` is ``None``, the task is regression."""
    published = Archive(name, f"{URL}/{name}.zip", "info.yaml", partial(read_graphland, name=name))
    task = "regression" if classes is None else f"{classes} classes"
    metric = "r2" if classes is None else "average_precision" if classes == 2 else "accuracy"
    known = {"nodes": nodes, "edges": edges, "classes": classes, "task": task, "metric": metric}
    return published.source(description, splits=SPLITS, **known)


SOURCES = tuple(_source(*row) for row in published("graphland"))
