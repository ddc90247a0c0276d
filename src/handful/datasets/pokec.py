"""``pokec``: an undirected Slovak social network of 1,632,803 people and 30.6M friendships; the class is the gender.

The graph is read from the ``pokec.mat`` of LINKX, with 65 features, as in "Classic GNNs". The split is random: 10/10/80
percent of the people whose gender is known. Every seed gives another split, as in the paper.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets.arrays import read_mat, whole
from handful.datasets.prepared import fetch, is_prepared, prepared
from handful.datasets.registry import Query, Source
from handful.datasets.splits import RANDOM_LOW, random_split
from handful.errors import blaming, readable
from handful.graph import Graph

URL = "https://drive.usercontent.google.com/download?id=1575QYJwJlj7AWuOKMlwVmMz8FcslUncu&confirm=t"
FILE = "pokec.mat"


def _load(query: Query) -> Graph:
    """Load the graph, with a random split that is drawn with ``query.seed``."""
    folder = query.home / "pokec"
    graph = prepared(folder / "linkx", lambda: (read_linkx(fetch(URL, folder / FILE)), {}), None)
    assert graph.y is not None
    return graph.replace(**random_split(graph.num_nodes, RANDOM_LOW, query.seed, graph.y >= 0))


def read_linkx(path: Path) -> Graph:
    """Read ``pokec.mat``: ``edge_index`` (2, E), ``node_feat`` (N, F) and ``label``, -1 for an unknown gender."""
    store = read_mat(path)
    with readable(path, "it is not LINKX's file"):
        ends, features, labels = (store[key] for key in ("edge_index", "node_feat", "label"))
    with np.errstate(over="ignore"):  # the graph refuses values that become infinite
        x = features.astype(np.float32)
    ends, y = whole(ends, f"{path}: the edges"), whole(labels, f"{path}: the labels").reshape(-1)
    fields = {"x": x, "y": y, "num_classes": 2, "class_names": ("female", "male"), "name": "pokec"}
    with blaming(path):
        return Graph.from_edge_index(ends, len(y), **fields).to_undirected()


def _on_disk(home: Path) -> bool:
    return (home / "pokec" / FILE).exists() or is_prepared(home / "pokec" / "linkx")


ABOUT = "a Slovak social network; the class is the gender; split drawn for every seed"
KNOWN: dict[str, Any] = {"task": "2 classes", "nodes": 1_632_803, "edges": 44_603_928, "features": 65, "classes": 2}
SOURCES = (Source("pokec", ABOUT, _load, on_disk=_on_disk, **KNOWN),)
