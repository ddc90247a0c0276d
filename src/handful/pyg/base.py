"""What the loaders share: a seed, an epoch counter, a thread that works ahead, and the cutting of a ``Data``."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
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
    "filter_per_worker",
    "in_order",
    "is_sorted",
    "log",
    "multiprocessing_context",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
    "num_workers",
    "timeout",
    "worker_init_fn",
)
"""Options of PyG's loaders and of torch's ``DataLoader`` that change no batch, only how one gets made."""


class Loader(ABC):
    """An iterable of batches. Every ``for`` over it is a new epoch, drawn from (seed, epoch); it has a length.

    ``epoch`` is the number of the next pass: set it to repeat an epoch, or to go on where a run stopped.
    """

    def __init__(self, seed: int | None, options: dict[str, Any]) -> None:
        _check_options(type(self).__name__, options)
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


def _check_options(loader: str, options: dict[str, Any]) -> None:
    for name in options:
        if name == "generator":
            raise SamplerError(f"{loader} takes seed=, a whole number, in place of generator=")
        if name not in _IGNORED:
            raise SamplerError(f"{loader}: " + unknown("option", name, ("seed", *_IGNORED)))
    ignored = [name for name, value in options.items() if value]
    if ignored:
        warnings.warn(
            f"{loader} prepares the next batch on a thread of this process and ignores {', '.join(ignored)}",
            stacklevel=4,
        )


def require_data(loader: str, data: Any) -> Data:
    """``data``, if it is a PyG ``Data`` with edges in ``edge_index``, as a copy that later changes do not reach."""
    if isinstance(data, HeteroData):
        raise GraphError(f"{loader} takes a Data and got a HeteroData: convert it with data.to_homogeneous()")
    if not isinstance(data, Data):
        raise GraphError(f"{loader} takes a torch_geometric.data.Data, got {type(data).__name__}")
    if "adj_t" in data or "adj" in data:
        raise GraphError(f"{loader} reads edge_index alone, and this Data has its edges in a sparse matrix (adj_t)")
    if data.edge_index is None:
        raise GraphError(f"{loader} needs edges, and this Data has no edge_index")
    return copy.copy(data)


def compressed(edge_index: Tensor, num_nodes: int, with_order: bool) -> tuple[Graph, Tensor]:
    """The topology of ``edge_index``, and for each edge of it the place in ``edge_index`` if ``with_order``."""
    edges = edge_index.detach().cpu().numpy()
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"edge_index must be whole numbers of shape (2, E), got {edges.dtype} {edges.shape}")
    check_edges(edges, num_nodes)
    indptr, indices, order = csr.coo_to_csr(edges[1], edges[0], num_nodes, num_nodes, with_order)
    graph = Graph(torch.from_numpy(indptr), torch.from_numpy(indices), undirected=False, checked=True)
    return graph, torch.from_numpy(order)


def has_edge_attributes(data: Data) -> bool:
    """Whether anything but ``edge_index`` has a value for every edge."""
    return any(key != "edge_index" and data.is_edge_attr(key) for key in data.keys())  # noqa: SIM118


def cut(data: Data, nodes: Tensor, edge_index: Tensor, edges: Tensor | None) -> Data:
    """The part of ``data`` that ``nodes`` and ``edges`` (ids, or none where no attribute needs them) pick out."""
    out = copy.copy(data)
    out.edge_index = edge_index.to(data.edge_index.device)
    carry(data, data._store, out._store, nodes, edges)
    return out


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


def coo(indptr: np.ndarray, indices: np.ndarray) -> Tensor:
    """A CSR as an ``edge_index``: edges in order of target, then of source."""
    return torch.from_numpy(subgraph.edge_index(indptr, indices))
