"""The size of a graph, as far as it can be told without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handful.datasets.registry import load, source_of
from handful.datasets.splits import is_drawn, shares_of
from handful.datasets.synthetic import BlockModel
from handful.files import place
from handful.graph import MASKS
from handful.storage import is_saved, read_header

SHARES = {"rh": (0.5, 0.25, 0.25), "rl": (0.1, 0.1, 0.8)}
"""Of training, validation and test in the named splits."""


@dataclass(frozen=True)
class Shape:
    """What a plan needs to know of a graph.

    >>> shape_of("synthetic?nodes=1000&degree=4").edges
    4000
    """

    name: str
    nodes: int
    edges: int
    """Each direction counts."""
    features: int
    outputs: int
    train: int
    judged: int
    """Validation and test nodes."""
    known: str
    """From where all this is known."""
    element: int = 4
    """Bytes of one feature."""
    weighted: bool = False
    undirected: bool = True
    folder: Path | None = None
    """Of a saved graph: its arrays are mapped into memory, and are read where they are needed."""

    @property
    def index_bytes(self) -> int:
        """Bytes of a node id in the topology."""
        return 4 if self.nodes < 2**31 else 8

    @property
    def topology_bytes(self) -> int:
        """Of ``indptr``, ``indices`` and the weights."""
        return 8 * (self.nodes + 1) + (self.index_bytes + 4 * self.weighted) * self.edges

    @property
    def feature_bytes(self) -> int:
        """Of all features."""
        return self.nodes * self.features * self.element

    @property
    def total_bytes(self) -> int:
        """Of the graph with labels and masks."""
        return self.topology_bytes + self.feature_bytes + 11 * self.nodes


def shape_of(name: str, split: str | None = None, root: str | None = None) -> Shape:
    """The shape of a graph by name or path, with its split. Only a file of a kind that does not tell is loaded."""
    path = place(name)
    source = source_of(name)
    if source is None and path is not None and is_saved(path):
        return _of_folder(path, split)
    if source is not None and source[0].name == "synthetic":
        return _of_options(name, source[1], split)
    known = None if source is None else source[0]
    if known is not None and None not in (known.nodes, known.edges, known.features, known.classes):
        train, val, test = _shares(split or (known.splits[0] if known.splits else "rh"))
        n = known.nodes or 0
        said = "the list of data sets" + ("" if split in SHARES or known.splits[:1] == ("rh",) else ASSUMED)
        return Shape(
            name, n, known.edges or 0, known.features or 0, known.classes or 0,
            round(train * n), round((val + test) * n), said,
        )  # fmt: skip
    graph = load(name, split=split, root=root)
    sizes = [0 if mask is None else int(mask.sum()) for mask in (getattr(graph, one) for one in MASKS)]
    if not sizes[0]:
        sizes = [round(share * graph.num_nodes) for share in _shares("rh")]
    return Shape(
        name, graph.num_nodes, graph.num_edges, graph.num_features, graph.num_outputs, sizes[0], sum(sizes[1:]),
        "loading it", 4 if graph.x is None else graph.x.element_size(), graph.edge_weight is not None,
        bool(graph.undirected),
    )  # fmt: skip


ASSUMED = "; half of its nodes taken for training"


def _shares(split: str) -> tuple[float, float, float]:
    return shares_of(split) if is_drawn(split) else SHARES.get(split, SHARES["rh"])


def _of_folder(path: Path, split: str | None) -> Shape:
    """By the header; only the masks are read."""
    header = read_header(path)
    arrays = header["arrays"]
    n = arrays["indptr"]["shape"][0] - 1
    x, y = arrays.get("x"), arrays.get("y")
    if split is None and MASKS[0] in arrays:
        sizes = [int(np.load(path / f"{one}.npy", mmap_mode="r").sum()) if one in arrays else 0 for one in MASKS]
        known = "its header and masks"
    else:
        sizes = [round(share * n) for share in _shares(split or "rh")]
        known = "its header" + ("" if split else ASSUMED)
    outputs = header.get("num_classes") or (y["shape"][1] if y is not None and len(y["shape"]) > 1 else 1)
    return Shape(
        header["name"], n, arrays["indices"]["shape"][0], 0 if x is None else x["shape"][1], outputs, sizes[0],
        sum(sizes[1:]), known, 2 if x is not None and x["dtype"] in ("float16", "bfloat16") else 4,
        "edge_weight" in arrays, bool(header.get("undirected")), path,
    )  # fmt: skip


def _of_options(name: str, model: BlockModel, split: str | None) -> Shape:
    n = model.nodes
    train, *rest = model.shares if split is None else _shares(split)
    return Shape(
        name, n, round(n * model.degree), model.features, model.classes, round(train * n), round(sum(rest) * n),
        "its options", model.dtype.itemsize,
    )  # fmt: skip
