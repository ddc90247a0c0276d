"""Find the size of a graph, if possible without loading the graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handful.datasets.registry import load, query_of
from handful.datasets.splits import RANDOM_HIGH, Shares, shares_of
from handful.datasets.synthetic import BlockModel
from handful.files import place
from handful.graph import MASKS, Graph
from handful.kernels.sparse import is_sparse
from handful.storage import is_saved, read_header

ASSUMED = "; half of its nodes taken for training"
DENSE = "; its sparse features taken as a dense table"


@dataclass(frozen=True)
class Shape:
    """The properties of a graph that a plan needs.

    >>> shape_of("synthetic?nodes=1000&degree=4").edges
    4000
    """

    name: str
    nodes: int
    edges: int
    """The number of directed edges: an undirected edge counts twice."""
    features: int
    outputs: int
    train: int
    judged: int
    """The number of validation and test nodes."""
    known: str
    """Where these numbers come from, as text."""
    element: int = 4
    """The number of bytes of one feature value."""
    weighted: bool = False
    folder: Path | None = None
    """The folder of a saved graph, whose arrays are memory-mapped and read on demand."""

    hops: int = 0
    """The number of aggregated copies of the features that are stored besides the features."""

    @property
    def index_bytes(self) -> int:
        """The size of a node id in ``indices``, in bytes."""
        return 4 if self.nodes < 2**31 else 8

    @property
    def topology_bytes(self) -> int:
        """The size of ``indptr``, ``indices`` and the edge weights, in bytes."""
        return 8 * (self.nodes + 1) + (self.index_bytes + 4 * self.weighted) * self.edges

    @property
    def row_bytes(self) -> int:
        """The size of the features and aggregates of one node, in bytes."""
        return (1 + self.hops) * self.features * self.element

    @property
    def feature_bytes(self) -> int:
        """The size of the features and aggregates of all nodes, in bytes."""
        return self.nodes * self.row_bytes

    @property
    def total_bytes(self) -> int:
        """The size of the graph, including labels and masks, in bytes."""
        return self.topology_bytes + self.feature_bytes + 11 * self.nodes


def shape_of(name: str, split: str | None = None, root: str | None = None) -> Shape:
    """The shape of the graph ``name``, a name or a path, with the split ``split``. The graph is loaded only if its size
    is unknown.
    """
    query, path = query_of(name, split, root, seed=0), place(name)
    if query is None and path is not None and is_saved(path):
        return _of_folder(path, split)
    if query is not None:
        source, model = query[0], query[1].options
        if isinstance(model, BlockModel):
            counts = _counts(model.nodes, model.shares if split is None else shares_of(split))
            sizes = (model.nodes, round(model.nodes * model.degree), model.features, model.classes)
            return Shape(name, *sizes, *counts, "its options", model.dtype.itemsize)
        if source.nodes and source.edges and source.features and source.classes:
            shares = shares_of(split or query[1].split or "")
            sizes = (source.nodes, source.edges, source.features, source.classes)
            known = "the list of data sets" + ("" if shares else ASSUMED)
            return Shape(name, *sizes, *_counts(source.nodes, shares), known)
    return _of_graph(load(name, split=split, root=root))


def _counts(nodes: int, shares: Shares | None) -> tuple[int, int]:
    train, val, test = shares or RANDOM_HIGH
    return max(1, round(train * nodes)), round((val + test) * nodes)


def _of_folder(path: Path, split: str | None) -> Shape:
    """Read the shape of a saved graph from its header. The masks are the only arrays that are read."""
    header = read_header(path)
    arrays = header["arrays"]
    n = arrays["indptr"]["shape"][0] - 1
    x, y = arrays.get("x"), arrays.get("y")
    if split is None and MASKS[0] in arrays:
        masks = [int(np.load(path / f"{one}.npy", mmap_mode="r").sum()) if one in arrays else 0 for one in MASKS]
        (train, judged), known = (masks[0], sum(masks[1:])), "its header and masks"
    else:
        train, judged = _counts(n, shares_of(split or ""))
        known = "its header" + ("" if split else ASSUMED)
    features = 0 if x is None else x["shape"][1]
    if "x_width" in arrays:
        features, known = int(np.load(path / "x_width.npy")[0]), known + DENSE
    outputs = header.get("num_classes") or (y["shape"][1] if y is not None and len(y["shape"]) > 1 else 1)
    element = 2 if x is not None and x["dtype"] in ("float16", "bfloat16") else 4
    sizes = (n, arrays["indices"]["shape"][0], features, outputs, train, judged)
    return Shape(header["name"], *sizes, known, element, "edge_weight" in arrays, path)


def _of_graph(graph: Graph) -> Shape:
    masks = [int(mask.sum()) for name in MASKS if (mask := getattr(graph, name)) is not None]
    counts = (masks[0], sum(masks[1:])) if masks else _counts(graph.num_nodes, None)
    sizes = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_outputs)
    known, element = "loading it" + ("" if masks else ASSUMED), 4 if graph.x is None else graph.x.element_size()
    known += DENSE * (graph.x is not None and is_sparse(graph.x))
    return Shape(graph.name, *sizes, *counts, known, element, graph.edge_weight is not None)
