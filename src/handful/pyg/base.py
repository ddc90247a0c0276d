"""What the loaders share: a seed, an epoch counter, a thread that prepares batches, and the cutting of a ``Data``."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import select

from handful.errors import GraphError, SamplerError, unknown
from handful.graph import Graph, check_edges
from handful.kernels import csr, subgraph
from handful.samplers.ahead import ahead

_IGNORED = (
    "filename",
    "filter_per_worker",
    "in_order",
    "is_sorted",
    "log",
    "multiprocessing_context",
    "num_workers",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
    "save_dir",
    "sparse_format",
    "timeout",
    "worker_init_fn",
)
"""Options of PyG's loaders and of torch's ``DataLoader`` that change how batches are made, and not what they are."""


class Loader(ABC):
    """An iterable of batches with a length. Every ``for`` over it is a new epoch, drawn from (seed, epoch).

    ``epoch`` is the number of the next pass: set it to repeat an epoch, or to go on where a run stopped.

    Args:
        seed: from torch's own generator when ``None``.
        options: what the user gave beyond the named arguments; see ``check_loader_options``.
        fixed: options that have one value only.

    >>> class Numbers(Loader):
    ...     def __len__(self):
    ...         return 3
    ...     def batches(self, epoch):
    ...         return iter(range(10 * epoch, 10 * epoch + 3))
    >>> loader = Numbers(seed=0, options={})
    >>> list(loader), list(loader)
    ([0, 1, 2], [10, 11, 12])
    """

    def __init__(self, seed: int | None, options: Mapping[str, Any], fixed: Mapping[str, Any] | None = None) -> None:
        check_loader_options(type(self).__name__, options, fixed or {})
        # Without a seed, torch.manual_seed decides, as for PyG's loaders.
        self.seed = int(torch.randint(2**62, ())) if seed is None else seed
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return ahead(self.batches(epoch))

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of this epoch, each made when it is needed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} batches)"


def check_loader_options(name: str, options: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse options that a loader cannot follow, and warn about those that it ignores.

    Args:
        name: of the loader, for messages.
        options: what the user gave.
        fixed: options that must have this value.

    Raises:
        SamplerError: an option is unknown, or is not as in ``fixed``.

    >>> check_loader_options("MyLoader", {"replace": False, "num_workers": 0}, {"replace": False})
    """
    ignored = []
    for option, value in options.items():
        if option == "generator":
            raise SamplerError(f"{name} takes seed=, a whole number, in place of generator=")
        if option in fixed:
            if value != fixed[option]:
                raise SamplerError(f"{name} knows {option}={fixed[option]!r} alone, got {value!r}")
        elif option not in _IGNORED:
            raise SamplerError(f"{name}: " + unknown("option", option, ("seed", *fixed, *_IGNORED)))
        elif value:
            ignored.append(option)
    if ignored:
        message = f"{name} makes its batches on a thread of this process and ignores {', '.join(ignored)}"
        warnings.warn(message, stacklevel=4)


# -- cutting batches out of a Data ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CompressedData:
    """A ``Data`` and its compressed edges, from which batches are cut.

    >>> edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    >>> compressed = compressed_data("a loader", Data(x=torch.eye(3), edge_index=edges))
    >>> compressed.induced(np.array([0, 1]))
    Data(x=[2, 3], edge_index=[2, 1], n_id=[2])
    """

    data: Any
    graph: Graph
    order: Tensor
    """For each edge of ``graph`` its place in ``edge_index``; empty unless ``with_edges``."""
    with_edges: bool
    by_source: bool = False
    """Whether rows are the sources of their edges and not, as everywhere else in handful, the targets."""

    def cut(self, nodes: np.ndarray, indptr: np.ndarray, indices: np.ndarray, places: np.ndarray) -> Any:
        """The batch with these nodes and, in a CSR of its own numbering, these edges of ``graph``."""
        edges = self.order[torch.from_numpy(places)] if self.with_edges else None
        return self.batch(torch.from_numpy(nodes), self.coo(indptr, indices), edges)

    def coo(self, indptr: np.ndarray, indices: np.ndarray) -> Tensor:
        """A CSR as an ``edge_index``, row after row."""
        edge_index = torch.from_numpy(subgraph.edge_index(indptr, indices))
        return edge_index.flip(0) if self.by_source else edge_index

    def batch(self, nodes: Tensor, edge_index: Tensor, edges: Tensor | None) -> Any:
        """The part of ``data`` that these node and edge ids pick out."""
        out = copy.copy(self.data)
        out.edge_index = edge_index.to(self.data.edge_index.device)
        carry(self.data, self.data._store, out._store, nodes, edges)
        return out

    def parts(self, part: np.ndarray, m: int) -> Iterator[Any]:
        """The batches that parts 0 to ``m - 1`` induce, from one pass over the edges."""
        for nodes, *edges in subgraph.parts(*self.graph.topology, part, m, self.with_edges):
            yield self.cut(nodes, *edges)

    def induced(self, nodes: np.ndarray) -> Any:
        """The batch that ``nodes`` (distinct ids) induce."""
        return self.cut(nodes, *subgraph.induced(*self.graph.topology, nodes, self.with_edges))


def compressed_data(name: str, data: Any, with_edges: bool = False, by_source: bool = False) -> CompressedData:
    """Check and compress ``data``.

    Args:
        name: of the loader, for messages.
        data: a ``Data`` with ``edge_index``.
        with_edges: know which edges a batch has. It is set if ``data`` has an attribute of edges.
        by_source: let rows be the sources of their edges.

    Raises:
        GraphError: ``data`` is not a ``Data`` with a valid ``edge_index``.

    >>> compressed_data("a loader", Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)).graph.num_edges
    1
    """
    if isinstance(data, HeteroData):
        raise GraphError(f"{name} takes a Data and got a HeteroData: convert it with data.to_homogeneous()")
    if not isinstance(data, Data):
        raise GraphError(f"{name} takes a torch_geometric.data.Data, got {type(data).__name__}")
    if "adj_t" in data or "adj" in data:
        raise GraphError(f"{name} reads edge_index alone, and this Data has its edges in a sparse matrix (adj_t)")
    if data.edge_index is None:
        raise GraphError(f"{name} needs edges, and this Data has no edge_index")
    data = copy.copy(data)  # so that later changes do not reach the loader
    with_edges |= any(key != "edge_index" and data.is_edge_attr(key) for key, _ in data)
    graph, order = compressed_edges(data.edge_index, int(data.num_nodes or 0), with_edges, by_source)
    return CompressedData(data, graph, order, with_edges, by_source)


def compressed_edges(
    edge_index: Tensor, num_nodes: int, with_order: bool, by_source: bool = False
) -> tuple[Graph, Tensor]:
    """The topology of ``edge_index`` ``(2, E)``; and, if ``with_order``, the place of each edge in ``edge_index``.

    >>> graph, order = compressed_edges(torch.tensor([[0, 1, 2], [2, 1, 0]]), 3, with_order=True)
    >>> graph.edge_index.tolist(), order.tolist()
    ([[2, 1, 0], [0, 1, 2]], [2, 1, 0])
    """
    edges = edge_index.detach().cpu().numpy()
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"edge_index must be whole numbers of shape (2, E), got {edges.dtype} {edges.shape}")
    check_edges(edges, num_nodes)
    rows, columns = edges if by_source else edges[::-1]
    indptr, indices, order = csr.coo_to_csr(rows, columns, num_nodes, num_nodes, with_order)
    graph = Graph(torch.from_numpy(indptr), torch.from_numpy(indices), undirected=False, checked=True)
    return graph, torch.from_numpy(order)


def carry(data: Data | HeteroData, store: Any, out: Any, nodes: Tensor | None, edges: Tensor | None) -> None:
    """Cut every node- and edge-level attribute of ``store`` to ``nodes`` and ``edges``, and put it into ``out``.

    Other attributes are left alone. The ids are added as ``n_id`` and ``e_id``, unless ``store`` has its own.

    >>> data, out = Data(x=torch.tensor([[5], [6], [7]]), edge_index=torch.tensor([[0], [1]])), Data()
    >>> carry(data, data._store, out._store, torch.tensor([2, 0]), None)
    >>> out.x.tolist(), out.n_id.tolist()
    ([[7], [5]], [2, 0])
    """
    for key, value in store.items():
        if key == "num_nodes":
            out.num_nodes = len(nodes)  # type: ignore[arg-type]
        elif key != "edge_index" and (store.is_node_attr(key) or store.is_edge_attr(key)):
            ids = nodes if store.is_node_attr(key) else edges
            out[key] = _pick(value, ids, data.__cat_dim__(key, value, store))
    if nodes is not None and "n_id" not in store:
        out.n_id = nodes
    if edges is not None and "e_id" not in store:
        out.e_id = edges


def _pick(value: Any, ids: Any, dim: int) -> Any:
    if isinstance(value, np.ndarray):
        return np.take(value, ids.numpy(), axis=dim)
    return select(value, ids.to(value.device) if isinstance(value, Tensor) else ids, dim)
