"""``ogbn-arxiv``, ``ogbn-products``, ``ogbn-proteins`` and ``ogbn-papers100M`` from OGB's archives, as undirected
graphs with the official splits.

The files have OGB's raw layout: ``raw/edge.csv.gz``, ``raw/node-feat.csv.gz``, ``raw/node-label.csv.gz`` and the
numbers of nodes and edges, or ``raw/data.npz`` with ``raw/node-label.npz``; and
``split/<scheme>/{train,valid,test}.csv.gz``. An archive, or a folder that the ``ogb`` package unpacked
(``ogbn_arxiv``), is used if it is in the folder of the data sets. The features of papers100M need 57 GB of memory. The
nodes of proteins have 112 labels and no features of their own: the features of a node are the means of the features of
its edges, as in the examples of OGB, PyG and DGL.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets.arrays import ArrayFile, whole
from handful.datasets.edge_columns import mean_of_edges
from handful.datasets.prepared import Archive, Built, published
from handful.datasets.registry import Source
from handful.datasets.splits import Masks
from handful.datasets.tables import TableFile, read_matrix
from handful.errors import DatasetError, blaming, readable
from handful.graph import MASKS, Graph

URL = "https://snap.stanford.edu/ogb/data/nodeproppred"


def read_ogb(folder: Path, scheme: str, name: str) -> Built:
    """Read the undirected graph and its official split from ``folder``, in OGB's raw layout."""
    raw = folder / "raw"
    edges, x, labels, n = _binary(raw) if (raw / "data.npz").exists() else _text(raw)
    several = labels.shape[1] > 1
    y = labels if several else whole(np.where(np.isnan(labels[:, 0]), -1, labels[:, 0]), f"{raw}: the labels")
    names = _class_names(folder / "mapping", y.shape[1] if several else int(y.max(initial=-1)) + 1)
    with blaming(raw):
        graph = Graph.from_edge_index(edges, n, x=x, y=y, name=name, class_names=names).to_undirected()
    return graph, {"official": _split(folder / "split" / scheme, graph)}


Arrays = tuple[np.ndarray, np.ndarray | None, np.ndarray, int]
"""The edges (2, E), the features, the labels (N, labels) with NaN for unknown labels, and the number of nodes."""


def _text(raw: Path) -> Arrays:
    nodes, count = (int(read_matrix(raw / f"num-{kind}-list.csv.gz", np.int64, 1)[0, 0]) for kind in ("node", "edge"))
    labels = read_matrix(raw / "node-label.csv.gz", np.float64, nodes).T
    edges = read_matrix(raw / "edge.csv.gz", np.int32, count)
    features, of_edges, x = raw / "node-feat.csv.gz", raw / "edge-feat.csv.gz", None
    if features.exists():
        x = np.ascontiguousarray(read_matrix(features, np.float32, nodes).T)
    elif of_edges.exists():
        x = mean_of_edges(edges, read_matrix(of_edges, np.float32, count), nodes)[0].astype(np.float32)
    return edges, x, labels, nodes


def _binary(raw: Path) -> Arrays:
    store, label = ArrayFile(raw / "data.npz"), ArrayFile(raw / "node-label.npz")
    with readable(raw, "fetch it again"):
        edges, counts, labels = store["edge_index"], store["num_nodes_list"], label["node_label"]
    nodes = int(counts.reshape(-1)[0]) if counts.size == 1 and counts.dtype.kind in "iu" else 0
    if nodes < 1 or labels.size % nodes or labels.dtype.kind not in "iuf":
        raise DatasetError(f"{raw} does not hold the labels and the number of nodes of one graph: fetch it again")
    return edges, store.get("node_feat"), labels.astype(np.float64).reshape(nodes, -1), nodes


def _split(folder: Path, graph: Graph) -> Masks:
    parts = zip(MASKS, ("train", "valid", "test"), strict=True)
    nodes: dict[str, Any] = {mask: read_matrix(folder / f"{part}.csv.gz", np.int64)[0] for mask, part in parts}
    with blaming(folder):
        made = graph.replace(**nodes)
    return {mask: getattr(made, mask) for mask in MASKS}


def _class_names(mapping: Path, classes: int) -> tuple[str, ...] | None:
    """The names of the classes, if the archive has them."""
    path = next(iter(sorted(mapping.glob("labelidx2*.csv.gz"))), None)
    if path is None:
        return None
    names: Any = TableFile.open(path).read().table.column(1).to_pylist()
    return tuple(map(str, names)) if len(names) == classes else None


def _source(
    name: str, archive: str, scheme: str, nodes: int, edges: int, features: int, classes: int, description: str
) -> Source:
    published = Archive(name, f"{URL}/{archive}.zip", "raw", partial(read_ogb, scheme=scheme, name=name))
    kind, metric = ("labels", "roc_auc") if name == "ogbn-proteins" else ("classes", "accuracy")
    known = {"nodes": nodes, "edges": edges, "features": features, "classes": classes}
    return published.source(description, splits=("official",), task=f"{classes} {kind}", metric=metric, **known)


# The edge counts of products, proteins and papers100M are twice OGB's. A pair that OGB lists in both directions counts
# once.
SOURCES = tuple(_source(*row) for row in published("ogb"))
