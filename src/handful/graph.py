"""``Graph``: a topology in CSR form, with features, labels and split masks; all are validated when the graph is made.

Row ``v`` of the CSR lists the sources of the edges that point to ``v``: the nodes whose messages ``v`` receives. An
edge ``(u, v)`` of a PyG ``edge_index`` is column ``u`` of row ``v``. A graph keeps self-loops and repeated edges;
``without_loops`` removes self-loops, and ``coalesce`` merges repeated edges.
"""

from __future__ import annotations

import copyreg
import pickle
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from itertools import chain, combinations
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from handful.errors import GraphError, explaining
from handful.files import text_fingerprint
from handful.kernels import csr
from handful.kernels.sparse import arrays_of, from_scipy, is_sparse, scipy_rows, sparse_rows
from handful.notebook import html_table
from handful.settings import Repeated, Task

MASKS = ("train_mask", "val_mask", "test_mask")
TASKS: tuple[Task, ...] = get_args(Task)
Kind = Literal["binary", "multiclass", "multilabel", "regression", "links"]
METRICS_OF: dict[Kind, tuple[str, ...]] = {
    "binary": ("accuracy", "balanced_accuracy", "f1", "macro_f1", "average_precision", "roc_auc"),
    "multiclass": ("accuracy", "balanced_accuracy", "macro_f1"),
    "multilabel": ("roc_auc", "average_precision", "macro_f1"),
    "regression": ("r2", "mae", "rmse"),
}
"""The metrics for each kind of labels; the first is the default. ``handful.training.metrics`` computes them."""
MOST_ISOLATED = 10_000_000
"""A graph with more nodes than this must have ``x``, ``y``, or at least one edge per hundred nodes."""
MOST_CLASSES = 65_536
"""A graph with more classes than this must have at least as many nodes as classes."""
BLOCK = 65_536
"""The number of rows that are checked at a time."""
ROUNDING = 1e-5
"""The weights of an edge and its reverse count as equal if their relative difference is at most this."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with node labels: classes, regression targets, or several labels per node.

    Args:
        indptr: int64 ``(N + 1,)``, the start of each row.
        indices: ``(E,)``, int32, or int64 if there are 2³¹ nodes or more: the sources of each row, in ascending order.
        x: features ``(N, F)`` in float32, float16 or bfloat16, or sparse in float32 (a matrix of scipy or torch, kept
            as a CSR tensor of torch); ``None`` for a graph without features.
        y: the labels; ``None`` for a graph without labels. Classes are int64 ``(N,)``, -1 if unknown. Regression
            targets are float32 ``(N,)`` or ``(N, K)``, NaN if unknown. Several labels per node are float32 ``(N, K)``:
            0, 1, or NaN if unknown.
        train_mask, val_mask, test_mask: disjoint boolean masks ``(N,)``; all ``None`` for a graph without a split.
        edge_weight: float32 ``(E,)``, not negative; ``None`` for an unweighted graph.
        edge_attr: float32 ``(E, D)``, edge features, for PyG modules that use them; ``None`` if there are none.
        undirected: whether every edge has a reverse edge of the same weight. If ``True``, the edges are
            checked; otherwise, the value is computed from the edges.
        num_classes: the number of classes, or the number of labels per node. If ``None``, it is computed from ``y``:
            the largest class plus one, or the number of columns.
        metric: the metric for reports and for choosing the best epoch. If empty, it is the first metric in
            ``METRICS_OF`` for the kind of labels.
        class_names: the names of the classes (or labels).
        ids: ``(N,)``, the user's own node ids, int64 or text; ``None`` if nodes have only their indices.
        kept: text ``(N, K)``, columns of the user's table that are returned with predictions; ``schema["kept"]`` lists
            their names.
        schema: how the user's tables were encoded: the result of ``handful.datasets.schema.Schema.to_json``.
        name: the name of the graph, for messages and reports.
        task: ``classification``, ``regression`` or ``multilabel``. If ``None``, the task depends on ``y``:
            ``regression`` for labels that are not whole numbers, ``multilabel`` for several columns of whole numbers,
            and ``classification`` for one column of whole numbers.
        positive: for two classes, the positive class in average precision, ROC-AUC and F1, as an index or a name. If
            ``None``, the rarer class is the positive class.

    Raises:
        GraphError: an argument is wrong; the message names the argument and the reason.

    >>> Graph(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0]), x=torch.eye(3), y=torch.tensor([0, 1, 1]))
    Graph(graph: undirected, 3 nodes, 2 edges, 3 features, 2 classes)
    """

    indptr: Tensor
    indices: Tensor
    x: Tensor | None = None
    y: Tensor | None = None
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    edge_weight: Tensor | None = None
    undirected: bool | None = None
    num_classes: int | None = None
    metric: str = ""
    class_names: tuple[str, ...] | None = None
    ids: np.ndarray | None = None
    schema: Mapping[str, Any] | None = None
    name: str = "graph"
    task: Task | None = None
    positive: int | str | None = None
    edge_attr: Tensor | None = None
    kept: np.ndarray | None = None
    checked: bool = field(default=False, repr=False)
    """Whether the arrays have already been validated, for example by ``open_graph`` or before a transfer to another
    device. Validated arrays are not checked again.
    """

    def __post_init__(self) -> None:
        if not self.checked:
            for key, value in validate(self).items():
                object.__setattr__(self, key, value)
            object.__setattr__(self, "checked", True)

    @property
    def folder(self) -> Path | None:
        """The folder from which ``open_graph`` opened topology and features; ``None`` for all other graphs."""
        return self.__dict__.get("opened")

    # -- size ---------------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes.

        >>> Graph.from_edge_index([[0], [1]], num_nodes=5).num_nodes
        5
        """
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """E, the number of directed edges: an undirected edge counts twice.

        >>> Graph.from_edge_index([[0, 1], [1, 0]]).num_edges
        2
        """
        return len(self.indices)

    @property
    def num_features(self) -> int:
        """F, the number of features per node; 0 for a graph without features.

        >>> Graph.from_edge_index([[0], [1]], x=torch.zeros(2, 7)).num_features
        7
        """
        return 0 if self.x is None else self.x.shape[1]

    @property
    def num_outputs(self) -> int:
        """The number of outputs that a model needs: one for two classes (binary cross-entropy), else one per class,
        label or regression target.

        >>> [Graph.from_edge_index([[0], [1]], y=[0, 1], num_classes=classes).num_outputs for classes in (2, 3)]
        [1, 3]
        """
        if self.kind == "regression":
            return 1 if self.y is None or self.y.ndim == 1 else self.y.shape[1]
        return 1 if self.kind == "binary" else int(self.num_classes or 0)

    @property
    def kind(self) -> Kind:
        """The kind of labels: ``binary``, ``multiclass``, ``multilabel`` or ``regression``; ``links`` for link
        prediction.

        >>> Graph.from_edge_index([[0], [1]], y=[0.5, 1.5]).kind
        'regression'
        """
        return _kind(self.task, self.num_classes)

    @property
    def judged(self) -> Graph:
        """The graph whose labels and masks are used in evaluation: this graph itself, except for link prediction."""
        return self

    @cached_property
    def labelled(self) -> Tensor:
        """bool ``(N,)``, whether each node has a label.

        >>> Graph.from_edge_index([[0], [1]], y=[0, -1, 1]).labelled
        tensor([ True, False,  True])
        """
        return torch.zeros(self.num_nodes, dtype=torch.bool) if self.y is None else is_label(self.y)

    @property
    def device(self) -> torch.device:
        """The device of the tensors.

        >>> Graph.from_edge_index([[0], [1]]).device
        device(type='cpu')
        """
        return self.indptr.device

    @cached_property
    def nodes(self) -> Tensor:
        """int64 ``(N,)``: the ids of all nodes, in ascending order."""
        return torch.arange(self.num_nodes, device=self.device)

    @cached_property
    def in_degree(self) -> Tensor:
        """int64 ``(N,)``, the number of edges that point to each node.

        >>> Graph.from_edge_index([[0, 1, 2], [1, 0, 1]]).in_degree
        tensor([1, 2, 0])
        """
        return self.indptr.diff()

    @cached_property
    def in_weight(self) -> Tensor:
        """float32 ``(N,)``, the sum of the weights of each node's incoming edges; equal to ``in_degree`` if there are
        no weights.

        >>> Graph.from_edge_index([[0, 1, 2], [1, 0, 1]], edge_weight=[0.5, 1.0, 2.0]).in_weight
        tensor([1.0000, 2.5000, 0.0000])
        """
        if self.edge_weight is None:
            return self.in_degree.to(torch.float32)
        return torch.zeros(self.num_nodes, device=self.device).index_add_(0, self.edge_index[1], self.edge_weight)

    @cached_property
    def has_loops(self) -> bool:
        """Whether any node points to itself.

        >>> Graph.from_edge_index([[0, 1], [1, 1]]).has_loops
        True
        """
        return bool(csr.has_loops(*self.topology))

    @property
    def topology(self) -> tuple[np.ndarray, np.ndarray]:
        """``indptr`` ``(N + 1,)`` and ``indices`` ``(E,)`` as numpy arrays on the CPU, for the kernels.

        Both arrays are views. Do not keep these arrays: ``share_memory_`` frees the memory of a view.

        >>> indptr, indices = Graph.from_edge_index([[0, 1, 2], [1, 0, 1]]).topology
        >>> indices[indptr[1] : indptr[2]].tolist()  # the sources of node 1
        [0, 2]
        """
        if self.device.type != "cpu":
            return self._copied_topology
        return self.indptr.numpy(), self.indices.numpy()

    @cached_property
    def _copied_topology(self) -> tuple[np.ndarray, np.ndarray]:
        """A host copy of the topology of a graph on a GPU, for samplers that run on the host; made on first use."""
        return self.indptr.cpu().numpy(), self.indices.cpu().numpy()

    @cached_property
    def checksum(self) -> str:
        """A fingerprint of the topology, as a key for caches.

        >>> Graph.from_edge_index([[0, 1], [1, 0]]).checksum == Graph.from_edge_index([[1, 0], [0, 1]]).checksum
        True
        """
        crc = 0
        for array in self.topology:
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        return f"{crc:08x}-{self.num_nodes}-{self.num_edges}"

    @cached_property
    def edge_keys(self) -> Tensor:
        """int64 ``(E,)``, in ascending order: target · N + source for every edge, a key to look up the edge."""
        edges = self.edge_index
        return edges[1] * self.num_nodes + edges[0]

    def identity(self) -> dict[str, Any]:
        """The values that identify the graph in a record: name, metric, sizes, and a fingerprint of every array."""
        arrays = {"features": self.x, "labels": self.y, "weights": self.edge_weight}
        if self.edge_attr is not None:
            arrays["edge attributes"] = self.edge_attr
        masks = {name: mask for name in MASKS if (mask := getattr(self, name)) is not None}
        return {
            "graph name": self.name,
            "metric": self.metric,
            "classes": self.num_classes,
            **{name.replace("_mask", " nodes"): int(mask.sum()) for name, mask in masks.items()},
            "topology": self.checksum,
            # Old records lack these fields: values that they imply are not written.
            **({} if self.task in (None, "classification") else {"task": self.task}),
            **({"positive": 0} if self.positive == 0 else {}),
            **{name: None if array is None else fingerprint(array) for name, array in arrays.items()},
            "split nodes": fingerprint(*masks.values()),
            "class names": None if self.class_names is None else text_fingerprint(self.class_names),
            "schema": None if self.schema is None else text_fingerprint(self.schema),
        }

    @cached_property
    def train_nodes(self) -> Tensor:
        """int64, the ids of the training nodes, in ascending order.

        >>> Graph.from_edge_index([[0], [1]], x=torch.eye(3), y=[0, 1, 0], train_mask=[2, 0]).train_nodes
        tensor([0, 2])
        """
        return self.require_training().train_mask.nonzero().squeeze(1)  # type: ignore[union-attr]

    def __repr__(self) -> str:
        kind = "undirected" if self.undirected else "directed"
        features = "sparse features" if self.x is not None and is_sparse(self.x) else "features"
        size = f"{self.num_nodes:,} nodes, {self.num_edges:,} edges, {self.num_features} {features}"
        return f"Graph({self.name}: {kind}, {size}, {self._labels()})"

    def _labels(self) -> str:
        if self.kind == "regression":
            return "a number to predict" if self.num_outputs == 1 else f"{self.num_outputs} numbers to predict"
        return f"{self.num_classes or 0} {'labels' if self.kind == 'multilabel' else 'classes'}"

    def _repr_html_(self) -> str:
        rows = {
            "nodes": f"{self.num_nodes:,}",
            "edges": f"{self.num_edges:,} {'undirected' if self.undirected else 'directed'}"
            + (", weighted" if self.edge_weight is not None else ""),
            "features": f"{self.num_features:,}",
            "labels": f"{self._labels()}, {int(self.labelled.sum()):,} nodes have one",
        }
        if self.train_mask is not None:
            sizes = (f"{int(getattr(self, name).sum()):,} {name.removesuffix('_mask')}" for name in MASKS)
            rows["split"] = ", ".join(sizes)
        return html_table(f"Graph {self.name}", rows)

    # -- making -------------------------------------------------------------------------------------------------

    @classmethod
    def from_edge_index(cls, edge_index: Tensor | np.ndarray, num_nodes: int | None = None, **fields: Any) -> Graph:
        """A graph from an edge list in PyG's format.

        Args:
            edge_index: integers ``(2, E)``: one row of sources, one of targets.
            num_nodes: N, the number of nodes. If ``None``, it is the length of ``x`` or ``y`` or, if both are missing,
                the largest id plus one.
            fields: the other fields of ``Graph``. ``edge_weight`` and ``edge_attr`` have the order of ``edge_index``.
                A mask may also be an array of node ids.

        Raises:
            GraphError: a source or a target is not a valid node id, or another argument is wrong.

        >>> graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], edge_weight=[0.5, 1.0, 2.0])
        >>> graph.edge_index, graph.edge_weight
        (tensor([[2, 0, 1],
                [0, 1, 2]]), tensor([2.0000, 0.5000, 1.0000]))
        """
        edges = _tensor(edge_index, "edge_index").cpu().numpy()
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise GraphError(f"edge_index must have shape (2, E), got {edges.shape}: a row of sources, one of targets")
        if edges.dtype.kind not in "iu":
            raise GraphError(f"edge_index must hold integers, got {edges.dtype}")
        names = [name for name in ("x", "y", "edge_weight", "edge_attr") if fields.get(name) is not None]
        given = {name: _tensor(fields[name], name) for name in names}
        rows = [len(given[name]) for name in ("x", "y") if name in given and given[name].ndim]
        if num_nodes is None:
            num_nodes = rows[0] if rows else int(edges.max()) + 1 if edges.size else 0
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer) or num_nodes < 0:
            raise GraphError(f"num_nodes must be a whole number from 0 on, got {num_nodes!r}")
        count = edges.shape[1]
        if num_nodes > max(MOST_ISOLATED, 100 * count, *rows):  # before arrays of that size are allocated
            raise GraphError(f"{num_nodes:,} nodes are too many for {count:,} edges, x and y: number them without gaps")
        check_edges(edges, num_nodes)
        if edges.dtype != np.int32:
            edges = edges.astype(np.int64, copy=False)
        of_edges = [name for name in names if name.startswith("edge")]
        indptr, indices, order = csr.coo_to_csr(edges[1], edges[0], num_nodes, num_nodes, bool(of_edges))
        for name in of_edges:
            if given[name].ndim == 0 or len(given[name]) != count:
                raise GraphError(f"{name} has {given[name].numel()} values for {count} edges")
            given[name] = given[name][torch.from_numpy(order).to(given[name].device)]
        fields |= given
        return cls(torch.from_numpy(indptr), torch.from_numpy(indices), **fields)

    def replace(self, **fields: Any) -> Graph:
        """A copy of this graph with some fields replaced; the copy is validated.

        Args:
            fields: fields of ``Graph``. If only masks, metric, positive class or name are replaced, only the new values
                are checked. A new task resets the metric to its default, and removes the class names. If the task
                changes from classification to regression, class names that are numbers become the labels; other names
                raise an error.

        >>> graph = Graph.from_edge_index([[0, 1], [1, 0]], y=[0, 1])
        >>> graph.replace(train_mask=[0], val_mask=[1]).train_mask
        tensor([ True, False])
        """
        if fields.get("task", self.task) != self.task:
            y = self.y
            if fields["task"] != "classification" and y is not None and not y.is_floating_point():
                values = _class_values(self).to(y.device)
                y = torch.where(y < 0, torch.nan, values[y.clamp_min(0)])  # -1 is no class, and no number
            fields = {"y": y, "metric": "", "positive": None, "num_classes": None, "class_names": None} | fields
        elif "y" in fields:
            usual = self.metric == METRICS_OF[self.kind][0]
            fields = {"task": None, "positive": None, "metric": "" if usual else self.metric} | fields
        if not set(fields) <= {"name", "metric", "positive", *MASKS}:
            return replace(self, checked=False, **fields)
        out = replace(self, **fields)
        out.__dict__.update({name: vars(self)[name] for name in ("opened", "has_loops") if name in vars(self)})
        labels = {"y": self.y, "num_classes": self.num_classes}
        for key, value in (_check_masks(out, self.num_nodes, self.y) | _check_metric(out, labels)).items():
            object.__setattr__(out, key, value)
        return out

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on ``device``; if the graph is already there, this graph itself.

        >>> graph = Graph.from_edge_index([[0, 1], [1, 0]])
        >>> graph.to("cpu") is graph
        True
        """
        if self.device == torch.device(device):
            return self
        tensors = ((name, value) for name, value in self.__getstate__().items() if isinstance(value, Tensor))
        moved = replace(self, **{name: tensor.to(device) for name, tensor in tensors})  # type: ignore[arg-type]
        if "has_loops" in self.__dict__:  # passed on, so that the new graph does not compute it again
            moved.__dict__["has_loops"] = self.has_loops
        return moved

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or a pickle: the fields, without caches."""
        return {f.name: getattr(self, f.name) for f in dataclass_fields(self)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return pickle.loads(pickle.dumps(self))  # type: ignore[no-any-return]  # torch cannot copy sparse tensors

    def _sent(self) -> tuple[Any, ...]:
        """Pickle the graph for ``multiprocessing``: the tensors are in shared memory, which the receiving process maps.

        By default, torch would move the graph's own storages to shared memory. This would free the old memory while
        kernels still read it. Instead, the graph's tensors are replaced by copies in shared memory. The old memory is
        freed when no view uses it any more.
        """
        for name, value in self.__getstate__().items():
            if isinstance(value, Tensor) and value.device.type == "cpu":
                object.__setattr__(self, name, _shared(value))
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    # -- edges --------------------------------------------------------------------------------------------------

    @property
    def edge_index(self) -> Tensor:
        """int64 ``(2, E)``, sources and targets, sorted by target and then by source.

        >>> Graph.from_edge_index([[2, 0], [0, 1]]).edge_index
        tensor([[2, 0],
                [0, 1]])
        """
        rows = torch.from_numpy(csr.row_of_edge(self.topology[0])).to(self.device)
        return torch.stack([self.indices.to(torch.int64), rows])

    def without_loops(self) -> Graph:
        """The graph without edges from a node to itself.

        >>> Graph.from_edge_index([[0, 1], [1, 1]]).without_loops().num_edges
        1
        """
        return self._simplify(drop_loops=True, merge=None)

    def coalesce(self, weights: Repeated = "sum") -> Graph:
        """The graph with repeated edges merged into one.

        Args:
            weights: the weight of the merged edge: the ``sum`` or the ``mean`` of the weights, the ``first`` weight (in
                the order of ``from_edge_index``), or the ``count`` of merged edges, which also works for an unweighted
                graph.

        >>> graph = Graph.from_edge_index([[0, 0], [1, 1]], edge_weight=[1.0, 5.0])
        >>> [graph.coalesce(weights).edge_weight.item() for weights in ("sum", "mean", "first", "count")]
        [6.0, 3.0, 1.0, 2.0]
        """
        return self._simplify(drop_loops=False, merge=weights)

    def _simplify(self, *, drop_loops: bool, merge: Repeated | None) -> Graph:
        old_indptr, old_indices = self.topology
        indptr, indices, keep = csr.simplify(old_indptr, old_indices, drop_loops=drop_loops, merge=merge is not None)
        if len(indices) == len(old_indices) and merge != "count":
            return self
        if self.edge_attr is not None and merge not in (None, "first"):
            raise GraphError("repeated edges have an edge_attr each: merge them with coalesce('first')")
        kept = torch.from_numpy(keep)
        attr = None if self.edge_attr is None else self.edge_attr.cpu()[kept]
        weight = torch.ones(len(old_indices)) if merge == "count" else self.edge_weight
        if weight is not None and merge in (None, "first"):
            weight = weight.cpu()[kept]
        elif weight is not None:
            group = torch.from_numpy(np.cumsum(keep) - 1)
            weight = torch.zeros(len(indices)).index_add_(0, group, weight.cpu())
            if merge == "mean":
                weight /= torch.bincount(group, minlength=len(indices))
        return self._with_edges(indptr, indices, self.undirected, edge_weight=weight, edge_attr=attr)

    def _with_edges(self, indptr: np.ndarray, indices: np.ndarray, undirected: Any, **of_edges: Tensor | None) -> Graph:
        """A copy of this graph with new edges, which are not checked."""
        topology = torch.from_numpy(indptr), torch.from_numpy(indices)
        out = replace(self, indptr=topology[0], indices=topology[1], undirected=undirected, **of_edges)  # type: ignore[arg-type]
        return out.to(self.device)

    def to_undirected(self) -> Graph:
        """The graph with the reverse of every edge added, and repeated edges merged.

        If both directions exist, their weights are averaged, so the order of edges does not matter. A graph that is
        already undirected is returned unchanged, with its repeated edges.

        >>> Graph.from_edge_index([[0, 1], [1, 2]]).to_undirected().num_edges
        4
        """
        if self.undirected:
            return self
        if self.edge_attr is not None:
            raise GraphError("the reverse of an edge has no edge_attr: make the edges undirected before they have one")
        weight = None if self.edge_weight is None else self.edge_weight.cpu()
        ends = csr.row_of_edge(self.topology[0]).astype(self.topology[1].dtype), self.topology[1]
        both = np.concatenate(ends), np.concatenate(ends[::-1])
        indptr, indices, order = csr.coo_to_csr(*both, self.num_nodes, self.num_nodes, weight is not None)
        if weight is not None:
            weight = torch.cat([weight, weight])[torch.from_numpy(order)]
        merged = self._with_edges(indptr, indices, True, edge_weight=weight).coalesce("mean")
        if merged.edge_weight is None:
            return merged
        # The sum of three or more values depends on their order, which may differ between the two directions.
        reverse = torch.from_numpy(csr.transpose(*merged.topology, self.num_nodes, True)[2]).to(self.device)
        return replace(merged, edge_weight=(merged.edge_weight + merged.edge_weight[reverse]) / 2)

    # -- training -----------------------------------------------------------------------------------------------

    def require_training(self) -> Graph:
        """Return this graph, after a check that it has features, labels and the three masks.

        Raises:
            GraphError: features, labels or a mask are missing; the message names them.

        >>> Graph.from_edge_index([[0], [1]], name="mine").require_training()
        Traceback (most recent call last):
            ...
        handful.errors.GraphError: graph 'mine' cannot be trained on: it has no x, y, train_mask, val_mask, test_mask
        """
        missing = [n for n in ("x", "y", *MASKS) if getattr(self, n) is None]
        if missing:
            hint = ": name a split to draw, such as stratified:60/20/20" if set(missing) <= set(MASKS) else ""
            raise GraphError(f"graph '{self.name}' cannot be trained on: it has no {', '.join(missing)}{hint}")
        return self


ForkingPickler.register(Graph, Graph._sent)


def _shared(values: Tensor) -> Tensor:
    """``values`` in shared memory: a copy, unless they are there already."""
    if is_sparse(values):
        return sparse_rows(*map(_shared, arrays_of(values)), width=values.shape[1])
    return values if values.is_shared() else values.clone().share_memory_()  # type: ignore[no-untyped-call]


def fingerprint(*arrays: Tensor) -> str:
    """A checksum of the shapes, dtypes and bytes of the arrays.

    >>> fingerprint(torch.zeros(2)) == fingerprint(torch.zeros(2)) != fingerprint(torch.ones(2))
    True
    """
    crc = 0
    for array in arrays:
        crc = zlib.crc32(f"{array.dtype}{tuple(array.shape)}".encode(), crc)
        for part in arrays_of(array) if is_sparse(array) else (array,):
            if part.numel():  # an empty array of numpy's may have a stride that torch cannot view as bytes
                crc = zlib.crc32(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data, crc)
    return f"{crc:08x}"


def check_edges(edges: np.ndarray, num_nodes: int) -> None:
    """Raise an error if a source or a target of an edge is not a valid node id.

    Args:
        edges: integers ``(2, E)``, sources and targets.
        num_nodes: the number of nodes; every id must be smaller.

    >>> check_edges(np.array([[0, 1], [1, 2]]), num_nodes=3)
    """
    for row, end in zip(edges, ("source", "target"), strict=True):
        check_nodes(row, num_nodes, f"edge {{}} has {end}")


def check_nodes(nodes: np.ndarray, num_nodes: int, words: str) -> None:
    """Raise an error if an id in ``nodes`` is negative, or not below ``num_nodes``.

    ``words`` is the start of the message; ``{}`` in it is replaced by the index of the id.
    """
    at = csr.first_outside(nodes, num_nodes)
    if at >= 0:
        raise GraphError(f"{words.format(at)} {nodes[at]}: node ids run from 0 to {num_nodes - 1}")


def _tensor(value: Any, name: str) -> Tensor:
    """Convert an array of real numbers to a plain tensor. If torch does not support its dtype, the numbers are
    converted.
    """
    if isinstance(value, Tensor):
        plain = value.layout is torch.strided or (name == "x" and value.layout in (torch.sparse_csr, torch.sparse_coo))
        if not plain or value.is_quantized or value.is_meta or value.is_complex():
            got = f"{value.dtype}, {str(value.layout).removeprefix('torch.')}, on {value.device}"
            raise GraphError(f"{name} must be real numbers in a plain tensor, got {got}")
    if name == "x" and (hasattr(value, "tocsr") or getattr(value, "layout", None) is torch.sparse_coo):
        return _from_sparse(value)
    if isinstance(value, Tensor):
        result: Tensor = value.detach()
        return result
    with explaining(f"{name} is not an array of numbers: {{}}", TypeError, ValueError, OverflowError, kind=GraphError):
        array = np.asarray(value)
    if array.dtype.kind not in "biuf" and array.size:
        how = f": encode text, as np.unique({name}, return_inverse=True) does" if array.dtype.kind in "SUO" else ""
        raise GraphError(f"{name} must be real numbers, got {array.dtype}{how}")
    if array.dtype.kind not in "biuf":
        array = array.astype(np.float32)
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C"]))


def validate(graph: Graph) -> dict[str, Any]:
    """Check the fields of ``graph``, and return them in canonical form, by name.

    Raises:
        GraphError: a field is wrong.

    >>> sorted(validate(Graph.from_edge_index([[0], [1]])))
    ['indices', 'indptr', 'metric', 'num_classes', 'positive', 'undirected', 'y']
    """
    _check_plain(graph)
    indptr, indices = _check_topology(graph)
    n = len(indptr) - 1
    out: dict[str, Any] = {"indptr": indptr, "indices": indices}
    for name, shape in (("x", (n, "features")), ("edge_weight", (len(indices),)), ("edge_attr", (len(indices), "D"))):
        if (given := getattr(graph, name)) is not None:
            out[name] = _check_values(_tensor(given, name), name, shape)
    out |= _check_labels(graph, n)
    out |= _check_masks(graph, n, out["y"])
    out |= _check_metric(graph, out)
    if graph.class_names is not None and len(graph.class_names) != out["num_classes"]:
        raise GraphError(f"{len(graph.class_names)} class names for {out['num_classes'] or 0} classes")
    if graph.ids is not None:
        out["ids"] = _check_ids(graph.ids, n)
    if (kept := graph.kept) is not None:
        names = graph.schema.get("kept") if isinstance(graph.schema, Mapping) else None
        wanted = (n, len(names) if isinstance(names, list | tuple) else 0)
        if not isinstance(kept, np.ndarray) or kept.dtype.kind != "U" or kept.shape != wanted:
            raise GraphError(f"kept must hold texts of shape {wanted}: a column for each name in schema['kept']")
    reverse = csr.reverses(indptr.cpu().numpy(), indices.cpu().numpy(), with_order=graph.edge_weight is not None)
    if reverse is not None and (weight := out.get("edge_weight")) is not None:
        turned = weight[torch.from_numpy(reverse).to(weight.device)]
        if torch.allclose(weight, turned, rtol=ROUNDING, atol=0):
            out["edge_weight"] = weight if torch.equal(weight, turned) else (weight + turned) / 2
        else:
            reverse = None
    if graph.undirected and reverse is None:
        raise GraphError("the graph is said to be undirected, but an edge lacks its reverse: use to_undirected()")
    out["undirected"] = reverse is not None
    return out


def _check_plain(graph: Graph) -> None:
    """Check the types of the fields that are not arrays, since the values may come from a file."""
    names, classes = graph.class_names, graph.num_classes
    texts = names is None or (isinstance(names, tuple) and all(isinstance(name, str) for name in names))
    for name, fine, words in (
        ("name", isinstance(graph.name, str), "must be a text"),
        ("undirected", graph.undirected in (None, True, False), "must be true, false or None"),
        ("class_names", texts, "must be a tuple of texts"),
        ("class_names", not texts or len(set(names or ())) == len(names or ()), "holds a name twice"),
        ("num_classes", classes is None or (type(classes) is int and classes >= 0), "must be a whole number from 0 on"),
    ):
        if not fine:
            raise GraphError(f"{name} {words}, got {str(getattr(graph, name))[:60]}")


def _check_topology(graph: Graph) -> tuple[Tensor, Tensor]:
    indptr, indices = _tensor(graph.indptr, "indptr"), _tensor(graph.indices, "indices")
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or array.is_floating_point() or array.dtype == torch.bool:
            raise GraphError(f"{name} must be a vector of integers, got {array.dtype} of shape {tuple(array.shape)}")
    if len(indptr) == 0:
        raise GraphError("indptr is empty: it needs one value more than there are nodes")
    indptr = indptr.to(torch.int64).contiguous()
    n = len(indptr) - 1
    host = indptr.cpu().numpy()
    if not csr.rises(host, len(indices)):
        raise GraphError(f"indptr must rise from 0 to the number of edges, {len(indices)}")
    check_nodes(indices.cpu().numpy(), n, "edge {} has source")
    indices = indices.to(torch.int32 if csr.index_dtype(n) is np.int32 else torch.int64).contiguous()
    sources = indices.cpu().numpy()
    if np.isin(np.flatnonzero(sources[1:] < sources[:-1]) + 1, host).all():
        return indptr, indices
    # Kernels and caches rely on sorted rows.
    if graph.edge_weight is not None or graph.edge_attr is not None:
        raise GraphError("the sources of a row must ascend if edges have values: use Graph.from_edge_index")
    return indptr, torch.from_numpy(csr.transpose(*csr.transpose(host, sources, n)[:2], n)[1]).to(indices.device)


def _check_values(values: Tensor, name: str, shape: tuple[int | str, ...]) -> Tensor:
    """Check that the values are finite and have the given ``shape``, and convert them to float32.

    Features may stay in half precision. A word in ``shape`` stands for any size.
    """
    if name == "edge_attr" and values.ndim == 1:
        values = values.view(-1, 1)
    if values.ndim != len(shape) or len(values) != shape[0]:
        wanted = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        row = "row per node" if name == "x" else "value per edge" if name == "edge_weight" else "row per edge"
        raise GraphError(f"{name} must have shape {wanted}, one {row}, got {tuple(values.shape)}")
    if is_sparse(values):
        return _check_sparse(values.to(torch.float32))
    if name != "x" or values.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        if name == "edge_weight":
            _refuse(~((block >= 0) & block.isfinite()), name, block, "a weight is a finite number, 0 or more", start)
        else:
            _refuse(~block.isfinite(), name, block, "fill or drop values that are not finite", start)
    return values.contiguous()


def _from_sparse(x: Any) -> Tensor:
    """Convert sparse features, a matrix of SciPy or a COO tensor, to a CSR tensor."""
    from scipy.sparse import coo_array

    device = getattr(x, "device", "cpu")
    with explaining("x is no sparse matrix of numbers: {}", RuntimeError, TypeError, ValueError, kind=GraphError):
        if isinstance(x, Tensor):
            values, places = x._values().detach().float().cpu().numpy(), x._indices().cpu().numpy()
            x = coo_array((values, tuple(places)), shape=tuple(x.shape))
        return from_scipy(x).to(device)


def _check_sparse(x: Tensor) -> Tensor:
    indptr, columns, values = arrays_of(x)
    if not csr.rises(indptr.long().cpu().numpy(), len(columns)) or len(values) != len(columns):
        raise GraphError("x is sparse, and the starts of its rows do not rise to the number of its values")
    if (at := csr.first_outside(columns.cpu().numpy(), x.shape[1])) >= 0:
        raise GraphError(f"x is sparse, and its value {at} is in column {columns[at]}: it has {x.shape[1]} columns")
    result = from_scipy(scipy_rows(x)).to(x.device)  # the columns of each row ascend
    values = result.values()
    _refuse(~values.isfinite(), "x.values()", values, "fill or drop values that are not finite")
    return result


def _refuse(wrong: Tensor, name: str, values: Tensor, why: str, start: int = 0) -> None:
    """Raise an error that names the first of ``values`` for which ``wrong`` is true.

    ``start`` is the row index of the first value in the whole array.
    """
    if bool(wrong.any()):
        row, *column = wrong.nonzero()[0].tolist()
        place, value = ", ".join(map(str, (start + row, *column))), values[(row, *column)].item()
        raise GraphError(f"{name}[{place}] is {value if isinstance(value, int) else f'{value:g}'}: {why}")


def _as_int64(values: Tensor, name: str) -> Tensor:
    """Convert whole numbers to int64. Raise an error if a number is too large to be represented exactly."""
    wide = torch.zeros(0, dtype=torch.bool)
    if values.is_floating_point():
        wide = ~(values.to(torch.float64).abs() < 2**53)
    elif values.dtype == torch.uint64:
        wide = values.to(torch.int64) < 0
    _refuse(wide, name, values, "that is not the number of a class or a node")
    return values.to(torch.int64).contiguous()


def _check_ids(given: Any, n: int) -> np.ndarray:
    ids: np.ndarray = np.asarray(given)
    if ids.ndim != 1 or len(ids) != n:
        raise GraphError(f"ids must have shape ({n},), one for every node, got {ids.shape}")
    if ids.dtype.kind == "U":
        return ids
    if ids.dtype.kind not in "iu" or (ids.dtype.kind == "u" and n and int(ids.max()) >= 2**63):
        raise GraphError(f"ids must be integers below 2⁶³ or text, got {ids.dtype}")
    return ids.astype(np.int64)


def _check_labels(graph: Graph, n: int) -> dict[str, Any]:
    """Check the labels, and return ``y``, ``num_classes`` and ``task``."""
    if graph.task not in (None, *TASKS):
        raise GraphError(f"task '{graph.task}' is unknown: choose from {', '.join(TASKS)}")
    if graph.y is None:
        return {"y": None, "num_classes": None if graph.task == "regression" else graph.num_classes}
    y = _tensor(graph.y, "y")
    if y.ndim == 0:
        raise GraphError(f"y must have shape ({n},), one label per node, got one number")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.squeeze(1)
    fractions = y.is_floating_point() and not bool((y.isnan() | (y == y.round())).all())
    task = graph.task or ("regression" if fractions else "multilabel" if y.ndim == 2 else "classification")
    if len(y) != n or y.ndim not in {"multilabel": (2,), "regression": (1, 2)}.get(task, (1,)):
        shape = f"({n}, labels)" if task == "multilabel" else f"({n},)"
        raise GraphError(f"y must have shape {shape} for {task}, one row per node, got {tuple(y.shape)}")
    if task != "classification":
        y = y.to(torch.float32).contiguous()
    if task == "regression":
        _refuse(y.isinf(), "y", y, "y holds numbers, NaN where unknown")
        return {"y": y, "num_classes": None, "task": task}
    if task == "multilabel":
        words = "y holds 0, 1, or NaN where unknown; give task='regression' for numbers"
        _refuse((y != 0) & (y != 1) & ~y.isnan(), "y", y, words)
        return {"y": y, "num_classes": y.shape[1], "task": task}
    if fractions:
        raise GraphError("y must hold whole numbers (class ids) for classification, got fractions: see task")
    y = _as_int64(torch.where(y.isnan(), -1, y) if y.is_floating_point() else y, "y")
    classes = graph.num_classes if graph.num_classes is not None else (int(y.max()) + 1 if n else 0)
    if classes > max(n, MOST_CLASSES):
        raise GraphError(f"{classes:,} classes are too many for {n:,} nodes: number the classes from 0 without gaps")
    run = f"labels run from 0 to {classes - 1}, or are -1 where unknown"
    _refuse((y < -1) | (y >= classes), "y", y, f"{run}; give task='regression' if they are numbers to predict")
    return {"y": y, "num_classes": classes, "task": task}


def _class_values(graph: Graph) -> Tensor:
    """float32 ``(classes,)``: the name of each class, converted to a number, or the index of the class if classes have
    no names.
    """
    names = graph.class_names or tuple(map(str, range(graph.num_classes or 1)))
    try:
        values = torch.tensor([float(name) for name in names])
    except ValueError:
        values = torch.tensor(torch.nan)
    if not bool(values.isfinite().all()):
        labels = f"the labels of {graph.name} are classes ({', '.join(names[:3])} …), not numbers to predict"
        raise GraphError(f"{labels}: leave the task out, or import a label of numbers with --task regression")
    return values


def is_label(y: Tensor) -> Tensor:
    """bool ``(n,)``: which labels are known.

    >>> is_label(torch.tensor([0, -1])), is_label(torch.tensor([[1, torch.nan], [torch.nan, torch.nan]]))
    (tensor([ True, False]), tensor([ True, False]))
    """
    if not y.is_floating_point():
        return y >= 0
    return ~y.isnan() if y.ndim == 1 else ~y.isnan().all(1)


def _kind(task: Task | None, classes: int | None) -> Kind:
    if task in ("regression", "multilabel"):
        return task
    return "binary" if classes == 2 else "multiclass"


def _check_metric(graph: Graph, labels: dict[str, Any]) -> dict[str, Any]:
    """Check ``metric`` and ``positive``, and return both. ``labels`` is the result of ``_check_labels``."""
    y, classes, task = labels["y"], labels["num_classes"], labels.get("task", graph.task)
    kind = _kind(task, classes)
    two = kind == "binary"
    known = [*dict.fromkeys(chain(*METRICS_OF.values()))] if y is None else METRICS_OF[kind]
    metric = graph.metric or ("" if y is None else known[0])
    if metric not in ("", *known):
        what = {"multiclass": f"{classes} classes", "binary": "two classes"}.get(kind, kind)
        raise GraphError(f"metric '{metric}' is not one for {what}: choose from {', '.join(known)}")
    positive = graph.positive
    if positive is not None and not two:
        raise GraphError(f"positive is for two classes, and this graph has {classes or 'none'}: leave it out")
    if isinstance(positive, str):
        names = tuple(graph.class_names or ("0", "1"))
        if positive not in (*names, "0", "1"):
            raise GraphError(f"positive '{positive}' is not a class: choose {' or '.join(names)}")
        positive = names.index(positive) if positive in names else int(positive)
    if positive is not None and positive not in (0, 1):
        raise GraphError(f"positive must be class 0 or 1, or its name, got {positive}")
    if positive is None and two and y is not None:
        positive = int(int((y == 1).sum()) <= int((y == 0).sum()))
    return {"metric": metric, "positive": positive}


def _check_masks(graph: Graph, n: int, y: Tensor | None) -> dict[str, Tensor]:
    given = {name: mask for name in MASKS if (mask := getattr(graph, name)) is not None}
    if not given:
        return {}
    device = graph.indptr.device if isinstance(graph.indptr, Tensor) else None
    out = {name: _as_mask(_tensor(given.get(name, ()), name), n, name).to(device) for name in MASKS}
    for a, b in combinations(MASKS, 2):
        if bool((both := out[a] & out[b]).any()):
            first = int(both.nonzero()[0])
            raise GraphError(f"{a} and {b} overlap in {int(both.sum())} nodes, the first being {first}")
    if not bool(out["train_mask"].any()):
        raise GraphError("train_mask is empty: there is no node to train on")
    for name, mask in out.items():
        if y is not None and bool((lacking := mask & ~is_label(y)).any()):
            raise GraphError(f"node {int(lacking.nonzero()[0])} is in {name} but has no label: y is -1 or NaN there")
    return out


def _as_mask(mask: Tensor, n: int, name: str) -> Tensor:
    """Convert a boolean mask or node ids to a boolean mask."""
    if mask.ndim != 1:
        raise GraphError(f"{name} must be a vector, got shape {tuple(mask.shape)}: choose one column of it")
    if mask.dtype == torch.bool:
        if len(mask) != n:
            raise GraphError(f"{name} has {len(mask)} values for {n} nodes")
        return mask.contiguous()
    if mask.is_floating_point() and len(mask):
        raise GraphError(f"{name} must be boolean or hold node ids, got {mask.dtype}")
    mask = _as_int64(mask, name)
    if n and len(mask) == n and bool(((mask == 0) | (mask == 1)).all()):
        if n <= 2:
            raise GraphError(f"{name} is {mask.tolist()}, which may be a mask or node ids: give booleans")
        # As ids, the nodes 0 and 1 would repeat.
        warnings.warn(f"{name} holds 0 and 1 for each of {n} nodes: it is read as a mask, not as ids", stacklevel=2)
        return mask.to(torch.bool)
    check_nodes(mask.cpu().numpy(), n, f"{name}[{{}}] is node")
    out = torch.zeros(n, dtype=torch.bool, device=mask.device)
    out[mask] = True
    return out
