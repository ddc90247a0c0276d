"""``pyg:Planetoid/Cora``, ``pyg:Amazon/Photo``, ``pyg:HeterophilousGraphDataset/tolokers?fold=3``: PyG's data sets.

The name after ``pyg:`` is any class of ``torch_geometric.datasets`` that has one graph with node labels. If the class
takes an argument ``name``, write its value after a slash, as in ``Planetoid/Cora``. Raw files have PyG's layout. They
are in ``pyg/CLASS`` in the folder of the data sets, or in ``CLASS`` if that folder exists. The masks are PyG's; if
there are several splits, ``fold`` chooses one (default: 0). A graph without masks gets a stratified 50/25/25 split
(``rh``), which is drawn with the seed. PyG's own class downloads and reads the data. PyG's ``Planetoid`` opens pickles;
handful itself never opens pickles.
"""

from __future__ import annotations

import inspect
import re
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from handful.convert import from_pyg, split_fields, unused
from handful.datasets.prepared import Built, prepared, prepared_splits
from handful.datasets.registry import Query, Source
from handful.datasets.splits import draw_split
from handful.errors import DatasetError, GraphError, blaming, needing, readable, require_name
from handful.graph import MASKS, Graph

ROC_AUC = ("minesweeper", "tolokers", "questions")
"""Binary data sets whose authors report the area under the ROC curve."""


@dataclass(frozen=True)
class PyGOptions:
    """The options of a PyG data set: ``fold`` is the index of the official split, if there are several."""

    fold: int | None = None


def _load(query: Query) -> Graph:
    """Load the PyG data set ``query.rest``. The data set is converted on first use."""
    kind, _, name = query.rest.partition("/")
    if not re.fullmatch(r"\w{1,100}(/\w[\w.-]{,99})?", query.rest):
        raise DatasetError(f"'{query.name}' is not of the form pyg:CLASS or pyg:CLASS/NAME")
    home = query.home / kind if (query.home / kind).is_dir() else query.home / "pyg" / kind
    folder = home / "handful" / (name or kind)
    build = partial(_build, home, kind, name)
    graph = prepared(folder, build, None)
    folds = prepared_splits(folder)
    fold = query.options.fold
    if query.split is not None or (not folds and fold is None):
        return graph.replace(**draw_split(graph, query.split or "rh", query.seed))
    if fold is not None and f"fold{fold}" not in folds:
        raise DatasetError(f"'{query.name}': there is no fold {fold}: the data set has {len(folds)}, counted from 0")
    return prepared(folder, build, f"fold{fold or 0}")


def _build(home: Path, kind: str, name: str) -> Built:
    with needing("data sets of PyG need PyG: pip install torch_geometric", DatasetError):
        from torch_geometric import datasets
    require_name("data set in PyG", kind, datasets.__all__, DatasetError)
    cls: Any = getattr(datasets, kind)
    takes = inspect.signature(cls.__init__).parameters
    if "name" in takes and not name:
        raise DatasetError(f"'pyg:{kind}' is not complete: write pyg:{kind}/NAME")
    if name and "name" not in takes:
        raise DatasetError(f"'pyg:{kind}/{name}': {kind} takes no name: write pyg:{kind}")
    what = f"'pyg:{kind}/{name}'" if name else f"'pyg:{kind}'"
    with readable(f"{what} of PyG", f"put its raw files into {home} by hand"):
        made = cls(**{key: value for key, value in (("root", str(home)), ("name", name)) if key in takes})
        if len(made) != 1:
            raise DatasetError(f"{what} holds {len(made)} graphs, not one graph with labelled nodes")
        data = made[0]
    with blaming(f"{what} cannot be used"):
        return _convert(data, name or kind, what)


def _convert(data: Any, name: str, what: str) -> Built:
    store = data.to_dict() if hasattr(data, "to_dict") else {}
    columns = max((store[m].shape[1] for m in MASKS if m in store and store[m].ndim == 2), default=None)
    folds = range(columns or 1) if store.get("train_mask") is not None else range(0)
    empty = {m: torch.zeros(data.num_nodes, dtype=torch.bool) for m in MASKS} if folds else {}
    splits = {f"fold{i}": empty | split_fields(store, i if columns else None) for i in folds}
    masks = [key for key in store if str(key).endswith("_mask")]
    lost = [key for key in unused(data.keys()) if key not in masks]
    if lost:
        warnings.warn(f"{what} is used without its {', '.join(lost)}", stacklevel=2)
    more: dict[str, Any] = {"metric": "roc_auc", "positive": 1} if name.lower() in ROC_AUC else {}
    graph = from_pyg(data, name=name, drop=[*lost, *masks], **more)
    if graph.x is None or graph.y is None:
        raise GraphError("it has no node features or no node labels")
    return graph, splits


ABOUT = "a data set of torch_geometric, such as pyg:Planetoid/Cora or pyg:Amazon/Photo"
SOURCES = (Source("pyg", ABOUT, _load, options=PyGOptions, scheme=True),)
