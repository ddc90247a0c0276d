"""What the loaders share: a seed, an epoch counter, a thread that works ahead, and the cutting of a ``Data``."""

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
from handful.samplers.prefetch import prefetch

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
"""Options of PyG's loaders and of torch's ``DataLoader`` that change no batch, only how one gets made."""


class Loader(ABC):
    """An iterable of batches. Every ``for`` over it is a new epoch, drawn from (seed, epoch); it has a length.

    ``epoch`` is the number of the next pass: set it to repeat an epoch, or to go on where a run stopped.
    """

    def __init__(self, seed: int | None, options: Mapping[str, Any], fixed: Mapping[str, Any] | None = None) -> None:
        check_options(type(self).__name__, options, fixed or {})
        # Without a seed, torch.manual_seed decides, as it does for PyG's loaders.
        self.seed = int(torch.randint(2**62, ())) if seed is None else seed
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return prefetch(self.batches(epoch))

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of this epoch, made as they are asked for."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} batches)"


def check_options(name: str, options: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse what ``name`` cannot do, and say what it ignores. An option in ``fixed`` has that value and no other."""
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
class Source:
    """A ``Data`` and its compressed edges: what batches are cut from."""

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


def make_source(name: str, data: Any, with_edges: bool = False, by_source: bool = False) -> Source:
    """Check and compress ``data``; edges are told apart if asked for, or if an attribute of theirs needs it."""
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
    graph, order = compressed(data.edge_index, int(data.num_nodes or 0), with_edges, by_source)
    return Source(data, graph, order, with_edges, by_source)


def compressed(edge_index: Tensor, num_nodes: int, with_order: bool, by_source: bool = False) -> tuple[Graph, Tensor]:
    """The topology of ``edge_index``, and for each edge of it the place in ``edge_index`` if ``with_order``."""
    edges = edge_index.detach().cpu().numpy()
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"edge_index must be whole numbers of shape (2, E), got {edges.dtype} {edges.shape}")
    check_edges(edges, num_nodes)
    rows, columns = edges if by_source else edges[::-1]
    indptr, indices, order = csr.coo_to_csr(rows, columns, num_nodes, num_nodes, with_order)
    graph = Graph(torch.from_numpy(indptr), torch.from_numpy(indices), undirected=False, checked=True)
    return graph, torch.from_numpy(order)


def carry(data: Data | HeteroData, store: Any, out: Any, nodes: Tensor | None, edges: Tensor | None) -> None:
    """Put the rows that belong to ``nodes`` or ``edges`` of every attribute of ``store`` into ``out``, and their ids.

    What is neither node- nor edge-level stays as it is; so do ``n_id`` and ``e_id`` of the user's own.
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
