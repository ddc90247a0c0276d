"""Convert graphs from and to PyG, scipy and networkx.

The docstring of each function lists the data that the conversion loses. The edges of a ``Graph`` are sorted by target,
then by source.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from handful.errors import GraphError, needing
from handful.graph import MASKS, Graph
from handful.kernels.sparse import dense

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data

SPLIT_KEYS = {
    "train_mask": ("train_mask", "train_idx", "train_index", "train"),
    "val_mask": ("val_mask", "valid_mask", "val_idx", "valid_idx", "val_index", "valid_index", "val", "valid"),
    "test_mask": ("test_mask", "test_idx", "test_index", "test"),
}


FACTS = ("task", "metric", "positive")
ARRAYS = ("x", "y", "edge_weight", "edge_attr")
KEYS = ("edge_index", "adj_t", *ARRAYS, "num_nodes", "num_classes", "class_names", "ids", *FACTS)
"""The attributes that a graph accepts, besides the split."""


def split_fields(source: Mapping[str, Any], fold: int | None = None) -> dict[str, Any]:
    """Convert the split in ``source`` to fields of ``Graph``.

    Args:
        source: boolean masks ``(N,)`` or node ids, under the names in ``SPLIT_KEYS``; or masks ``(N, folds)`` with one
            column per fold. If some masks are ``(N, folds)``, a mask ``(N,)`` applies to all folds.
        fold: the index of the column to use.

    >>> split_fields({"train_idx": [0, 1], "valid_idx": [2], "x": None})
    {'train_mask': [0, 1], 'val_mask': [2]}
    """
    out: dict[str, Any] = {}
    folded = False
    if not isinstance(source, Mapping):
        raise GraphError(f"a split is given by train, valid and test, got {type(source).__name__}")
    for field, keys in SPLIT_KEYS.items():
        result = [key for key in keys if source.get(key) is not None]
        if len(result) > 1:
            raise GraphError(f"both {result[0]} and {result[1]} are given: leave one of them out")
        if not result:
            continue
        mask = source[result[0]]
        folds = getattr(mask, "ndim", 1) == 2
        out[field] = _column(mask, result[0], fold) if folds else mask
        folded |= folds
    if fold is not None and not folded:
        raise GraphError(f"fold={fold} chooses a column of mask matrices, and this graph has none: leave it out")
    return out


def _column(mask: Any, name: str, fold: int | None) -> Any:
    columns = mask.shape[1]
    if fold is None and columns > 1:
        raise GraphError(f"{name} holds {columns} splits, one per column: choose one with fold=0 to fold={columns - 1}")
    if not 0 <= (fold or 0) < columns:
        raise GraphError(f"fold={fold} is not among the {columns} splits of {name}: choose from 0 to {columns - 1}")
    return mask[:, fold or 0]


def from_mapping(store: Mapping[str, Any], fold: int | None = None, **fields: Any) -> Graph:
    """A graph from named arrays or tensors.

    Args:
        store: ``edge_index`` ``(2, E)``, and any of ``x``, ``y``, ``edge_weight``, ``edge_attr``, ``num_nodes``,
            ``num_classes``, ``class_names``, ``ids``, ``task``, ``metric``, ``positive`` and a split (see
            ``split_fields``).
        fold: the index of the column to use, if masks are matrices.
        fields: fields of ``Graph``; they override the values in ``store``.

    >>> from_mapping({"edge_index": [[0, 1], [1, 0]], "y": [0, 1]}, name="pair")
    Graph(pair: undirected, 2 nodes, 2 edges, 0 features, 2 classes)
    """
    if store.get("edge_index") is None:
        raise GraphError(f"there is no edge_index among {', '.join(sorted(map(str, store))) or 'nothing'}")
    split = store.get("split_idx")
    result = split_fields(store if split is None else split, fold)
    result |= {key: store[key] for key in ARRAYS if store.get(key) is not None}
    readers = {"num_nodes": _plain, "num_classes": _plain, "class_names": _names, "ids": _ids}
    result |= {key: read(store[key], key) for key, read in readers.items() if store.get(key) is not None}
    result |= {key: str(store[key]) for key in FACTS if store.get(key) is not None}
    return Graph.from_edge_index(store["edge_index"], **result | fields)


def _plain(value: Any, name: str) -> Any:
    """Convert a number, which may be an array with one element, to a plain number."""
    if math.prod(getattr(value, "shape", ())) != 1:
        raise GraphError(f"{name} must be one whole number, got {_short(value)}")
    return value.item() if hasattr(value, "item") else value


def _names(value: Any, name: str) -> tuple[str, ...]:
    names = value.tolist() if isinstance(value, Tensor | np.ndarray) else value
    if not isinstance(names, list | tuple) or not all(isinstance(one, str | Real) for one in names):
        raise GraphError(f"{name} must be a list of names, got {_short(value)}")
    return tuple(map(str, names))


def _ids(value: Any, name: str) -> np.ndarray:
    """The user's own node ids. Raise an error if two ids are equal."""
    try:
        ids: np.ndarray = np.asarray(value)
        once = len(np.unique(ids)) == ids.size
    except (TypeError, ValueError, RuntimeError, MemoryError):
        raise GraphError(f"{name} must be integers or texts, got {_short(value)}") from None
    if not once:
        raise GraphError(f"{name} holds an id twice: every node has its own")
    return ids


def _short(value: Any) -> str:
    """A short description of ``value`` for an error message."""
    shape = getattr(value, "shape", None)
    return f"shape {tuple(shape)}" if shape else repr(value)[:60]


# -- PyG ------------------------------------------------------------------------------------------------------------


def from_pyg(
    data: Data,
    fold: int | None = None,
    split_idx: Mapping[str, Any] | None = None,
    drop: Sequence[str] = (),
    **fields: Any,
) -> Graph:
    """A graph from a PyG ``Data``: ``edge_index`` (or ``adj_t``), ``edge_weight``, ``edge_attr``, ``x``, ``y`` and the
    split. If there is no ``edge_attr``, ``edge_type`` becomes an ``edge_attr`` of width 1.

    A ``Graph`` cannot hold other attributes: list them in ``drop``. The order of the edges is lost.

    Args:
        data: a PyG ``Data``, with the split in boolean masks or in index tensors (``train_idx`` …).
        fold: the index of the column to use, if masks are matrices.
        split_idx: a dictionary of node ids with the keys ``train``, ``valid`` and ``test``, as in OGB; it replaces the
            split of ``data``.
        drop: attributes of ``data`` to leave out.
        fields: fields of ``Graph``; they override the values in ``data``.

    Raises:
        GraphError: ``data`` has an attribute that a graph cannot hold, such as ``pos``, and ``drop`` does not list it.

    >>> from torch_geometric.data import Data
    >>> from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), x=torch.eye(3), y=torch.tensor([0, 1, 0])))
    Graph(graph: directed, 3 nodes, 2 edges, 3 features, 2 classes)
    """
    if not hasattr(data, "edge_stores"):
        raise GraphError(f"from_pyg takes one Data, got {type(data).__name__}: give one graph of a dataset, dataset[0]")
    if hasattr(data, "node_types"):
        raise GraphError("a graph with several node types cannot be used: give a homogeneous Data (to_homogeneous())")
    drop = (drop,) if isinstance(drop, str) else drop
    if unknown := [name for name in drop if name not in data]:
        raise GraphError(f"drop names {', '.join(unknown)}, and this Data has {', '.join(sorted(data.keys()))}")
    store = {key: value for key, value in data.to_dict().items() if value is not None and key not in drop}
    if "edge_type" in store and "edge_attr" not in store:
        store["edge_attr"] = store.pop("edge_type")
    if lost := unused(store):
        raise GraphError(f"a graph cannot hold {', '.join(lost)} of this Data: use from_pyg(data, drop={lost})")
    if "edge_index" not in store and "edge_attr" in store:
        raise GraphError("edge_attr follows the order of edge_index, and this Data has no edge_index")
    if "edge_index" not in store:
        store["edge_index"], store["edge_weight"] = _edges_of_adj_t(store.get("adj_t"))
    if split_idx is not None:
        store["split_idx"] = split_idx
    graph = from_mapping(store | {"num_nodes": data.num_nodes}, fold, **fields)
    given = {**store, **fields}
    y = given.get("y")
    if isinstance(y, Tensor) and y.is_floating_point() and graph.task == "classification" and "task" not in given:
        told = "y holds whole numbers as floats: they are read as classes. Give task='regression' to predict numbers"
        warnings.warn(told, stacklevel=2)
    return graph


def unused(names: Iterable[str]) -> list[str]:
    """The attributes in ``names`` that a graph cannot hold.

    >>> unused(["x", "train_mask", "pos"])
    ['pos']
    """
    splits = {name for several in SPLIT_KEYS.values() for name in several}
    return sorted(name for name in names if name not in KEYS and name not in splits and name != "split_idx")


def _edges_of_adj_t(adj_t: Any) -> tuple[Tensor, Tensor | None]:
    """The edges and the weights of a transposed sparse adjacency matrix, whose rows are targets."""
    if not isinstance(adj_t, Tensor) or adj_t.layout is torch.strided:
        raise GraphError("this Data has neither edge_index nor a torch.sparse adj_t: give it an edge_index")
    coo = adj_t.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    targets, sources = coo.indices()
    weight = coo.values().to(torch.float32)
    return torch.stack([sources, targets]), None if bool((weight == 1).all()) else weight


def to_pyg(graph: Graph) -> Data:
    """A PyG ``Data`` that shares the graph's tensors. Sparse features become dense, since PyG's loaders need rows.

    The name, the class names, the metric and the positive class are lost. Text ``ids`` are also lost, with a warning,
    since PyG's loaders select only tensors; ``graph.ids[batch.n_id]`` gives the text ids of a batch.

    >>> to_pyg(Graph.from_edge_index([[0, 1], [1, 2]], x=torch.eye(3)))
    Data(x=[3, 3], edge_index=[2, 2], num_nodes=3)
    """
    with needing("PyG is not installed: pip install torch_geometric", GraphError):
        from torch_geometric.data import Data
    fields: dict[str, Any] = {n: dense(t) for n in (*ARRAYS, *MASKS) if (t := getattr(graph, n)) is not None}
    if graph.ids is not None and graph.ids.dtype.kind == "U":
        warnings.warn("to_pyg leaves out ids that are texts, which no loader of PyG can select", stacklevel=2)
    elif graph.ids is not None:
        fields["ids"] = torch.from_numpy(graph.ids)
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes, **fields)


# -- scipy ----------------------------------------------------------------------------------------------------------


def from_scipy(matrix: scipy.sparse.sparray | scipy.sparse.spmatrix, **fields: Any) -> Graph:
    """A graph from a square sparse matrix whose entry ``[u, v]`` is the edge from ``u`` to ``v``.

    Every stored entry is an edge: repeated entries are repeated edges, and a stored zero is an edge of weight 0. The
    values become ``edge_weight`` unless all are 1 (or true). Nothing is lost.

    Args:
        matrix: real numbers or booleans ``(N, N)``.
        fields: other fields of ``Graph``.

    >>> from scipy.sparse import coo_array
    >>> from_scipy(coo_array(([2.0], ([0], [1])), shape=(3, 3))).edge_weight
    tensor([2.])
    """
    if not hasattr(matrix, "tocoo"):
        raise GraphError(f"an adjacency matrix must be a sparse matrix of scipy, got {type(matrix).__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"an adjacency matrix must be square, got shape {matrix.shape}")
    coo = matrix.tocoo()
    if not (coo.data == 1).all():
        fields = {"edge_weight": coo.data} | fields
    return Graph.from_edge_index(np.stack([coo.row, coo.col]), matrix.shape[0], **fields)


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    """float32 ``(N, N)``, the adjacency matrix: entry ``[u, v]`` is the edge from ``u`` to ``v``.

    Everything except the edges and their weights is lost.

    >>> to_scipy(Graph.from_edge_index([[0, 1], [1, 2]])).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    from scipy.sparse import csc_array

    indptr, indices = graph.topology
    values = np.ones(len(indices), np.float32) if graph.edge_weight is None else graph.edge_weight.cpu().numpy()
    return csc_array((values, indices, indptr), shape=(graph.num_nodes,) * 2).tocsr()


# -- networkx -------------------------------------------------------------------------------------------------------


def from_networkx(graph: networkx.Graph, x: str = "x", y: str = "y", weight: str = "weight", **fields: Any) -> Graph:
    """A graph from networkx; nodes are numbered in the order of ``graph.nodes``.

    Each edge of an undirected networkx graph becomes two directed edges. Parallel edges of a multigraph are kept. The
    node attributes ``train_mask``, ``val_mask`` and ``test_mask`` are the split. Node names and all other
    attributes are lost.

    Args:
        graph: any graph of networkx.
        x: the attribute that holds a node's features, a number or a vector.
        y: the attribute that holds a node's label. Labels that are not numbers become ``class_names``, in sorted order,
            and a node's label is the index of its name.
        weight: the attribute that holds an edge's weight.
        fields: fields of ``Graph``; they override the values of the attributes.

    >>> import networkx as nx
    >>> from_networkx(nx.path_graph(4))
    Graph(graph: undirected, 4 nodes, 6 edges, 0 features, 0 classes)
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    edges = list(graph.to_directed(as_view=True).edges(data=True))
    ends = np.array([(place[u], place[v]) for u, v, _ in edges], np.int64).reshape(-1, 2).T
    named_edges = [(f"edge {u!r} to {v!r}", data) for u, v, data in edges]
    result: dict[str, Any] = {"edge_weight": _attribute(named_edges, weight)}
    nodes = [(f"node {node!r}", data) for node, data in graph.nodes(data=True)]
    if (features := _attribute(nodes, x)) is not None:
        result["x"] = [np.atleast_1d(row) for row in features]
    result["y"] = labels = _attribute(nodes, y)
    if labels is not None and not all(isinstance(label, Real) and not isinstance(label, bool) for label in labels):
        classes, result["y"] = np.unique([str(label) for label in labels], return_inverse=True)
        result["class_names"] = tuple(classes.tolist())
    for name in MASKS:
        result[name] = mask = _attribute(nodes, name)
        if not all(isinstance(value, bool | np.bool_) for value in mask or ()):
            raise GraphError(f"'{name}' of a node must be true or false, got {_short(mask)}")
    return Graph.from_edge_index(ends, len(place), **result | fields)


def _attribute(items: list[tuple[str, dict[str, Any]]], key: str) -> list[Any] | None:
    """The value of the attribute ``key`` of every item; ``None`` if no item has this attribute."""
    lacking = next((what for what, data in items if key not in data), None)
    if lacking is None and items:
        return [data[key] for _, data in items]
    if any(key in data for _, data in items):
        raise GraphError(f"{lacking} has no '{key}', and others have: give it to all or to none")
    return None


def to_networkx(graph: Graph) -> networkx.Graph:
    """A networkx graph: undirected if ``graph`` is undirected, and a multigraph if ``graph`` has repeated edges.

    Nodes are integers, with the attributes ``x`` (a list), ``y`` and the masks, if the graph has them. The edges of a
    weighted graph have the attribute ``weight``. Class names and the metric are lost.

    >>> print(to_networkx(Graph.from_edge_index([[0, 1], [1, 0]], name="pair")))
    Graph named 'pair' with 2 nodes and 1 edges
    """
    with needing("networkx is not installed: pip install 'handful[networkx]'", GraphError):
        import networkx as nx
    repeated = graph.coalesce().num_edges < graph.num_edges
    directed, undirected = (nx.MultiDiGraph, nx.MultiGraph) if repeated else (nx.DiGraph, nx.Graph)
    out = undirected(name=graph.name) if graph.undirected else directed(name=graph.name)
    columns = {n: dense(t).tolist() for n in ("x", "y", *MASKS) if (t := getattr(graph, n)) is not None}
    out.add_nodes_from((v, {n: values[v] for n, values in columns.items()}) for v in range(graph.num_nodes))
    weights = None if graph.edge_weight is None else graph.edge_weight.tolist()
    data = [{}] * graph.num_edges if weights is None else [{"weight": weight} for weight in weights]
    edges = zip(*graph.edge_index.tolist(), data, strict=True)
    out.add_edges_from((u, v, own) for u, v, own in edges if u <= v or not graph.undirected)
    return out
