"""``RandomNodeLoader`` yields the same batches as PyG's loader, bit for bit, but needs only one pass over the edges for
any number of parts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.hetero_data import to_homogeneous_edge_index
from torch_geometric.utils import select

from handful.errors import GraphError, SamplerError
from handful.graph import check_nodes
from handful.kernels.csr import index_dtype
from handful.kernels.inside import Inside, inside
from handful.pyg.loaders import OwnStreams
from handful.pyg.operators import kernel_threads
from handful.samplers.induced import without_edge


class RandomNodeLoader(DataLoader[Any]):
    """Splits the nodes into ``num_parts`` parts and yields the induced subgraph of each part.

    Args:
        data: a ``Data`` or ``HeteroData``; the nodes of all types of a ``HeteroData`` are split together.
        num_parts: the number of parts, m; each part has ⌈N/m⌉ nodes, and the last part may have fewer.
        return_ids: whether every batch gets the attributes ``n_id`` and ``e_id``, the ids of its nodes and edges. If
            ``data`` already has an attribute with such a name, that attribute is used instead.
        options: options of torch's ``DataLoader``, such as ``shuffle``, ``sampler``, ``generator`` or ``num_workers``.

    The batches are equal to those of ``torch_geometric.loader.RandomNodeLoader`` with the same options and generator:
    nodes are in random order, and edges are in the order of ``data``. If ``num_workers`` is 0, an epoch reads the edges
    only once. If there are workers, each batch reads all edges, as in PyG.

    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> [batch.num_nodes for batch in RandomNodeLoader(data, num_parts=2, shuffle=True)]
    [3, 3]
    """

    def __init__(self, data: Data | HeteroData, num_parts: int, return_ids: bool = False, **options: Any) -> None:
        for given_here in ("dataset", "collate_fn", "batch_size"):  # Lightning makes loaders again with these
            options.pop(given_here, None)
        if not isinstance(data, Data | HeteroData):
            raise GraphError(f"RandomNodeLoader takes a Data or HeteroData, got {type(data).__name__}")
        self.data, self.num_parts, self.return_ids = data, num_parts, return_ids
        self.num_nodes = int(data.num_nodes or 0)
        self._kinds: dict[Any, tuple[int, int]] = {None: (0, self.num_nodes)}
        if isinstance(data, HeteroData):
            self.edge_index, self.node_dict, self.edge_dict = to_homogeneous_edge_index(data)
            self._kinds = dict(self.node_dict)
        else:
            self.edge_index = data.edge_index
        if not 1 <= num_parts <= max(1, self.num_nodes):
            raise SamplerError(f"num_parts lies between 1 and the number of nodes, {self.num_nodes}, got {num_parts}")
        self._checked: dict[Any, tuple[Tensor, int]] = {}
        self._edges()
        size = math.ceil(self.num_nodes / num_parts)
        super().__init__(range(self.num_nodes), batch_size=size, collate_fn=self.collate_fn, **options)  # type: ignore[arg-type]

    def collate_fn(self, index: Any) -> Any:
        """Make the batch of the nodes in ``index``. Each call reads all edges."""
        nodes = torch.as_tensor(index)
        if len(torch.unique(nodes)) < len(nodes):
            raise SamplerError("a part has a node twice: sample without replacement")
        return next(self._cut([nodes]))

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            # Torch's own iterator draws a seed first.
            self._epoch_seed: int | None = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator))
            return self._epoch()
        for _, edges in self._edges():  # load the kernels before workers are forked, or each would load them
            loop = Data(edge_index=torch.zeros(2, 1, dtype=edges.dtype), num_nodes=1)
            RandomNodeLoader(loop, 1).collate_fn([0])
        return super()._get_iterator()

    def _epoch(self) -> Iterator[Any]:
        parts, disjoint = self._parts()
        batches = self._cut(parts) if disjoint else map(self.collate_fn, parts)
        if self.pin_memory and torch.cuda.is_available():
            batches = (batch.pin_memory() for batch in batches)
        yield from batches  # no variable holds a batch while the next one is made

    def _parts(self) -> tuple[list[Tensor], bool]:
        """The nodes of each part, and whether the parts are disjoint.

        The parts are those that torch's samplers would give, but all indices are drawn at once.
        """
        sampler, n = self.sampler, self.num_nodes
        plain = isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == n
        if not (plain or type(sampler) is SequentialSampler) or self.batch_size is None:
            parts = [torch.as_tensor(index) for index in self.batch_sampler or ()]
            return parts, not parts or len(torch.unique(torch.cat(parts))) == sum(map(len, parts))
        order = torch.arange(n)
        if isinstance(sampler, RandomSampler):
            draws = sampler.generator
            if draws is None:
                draws = torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
            order = torch.randperm(n, generator=draws)
            if sampler.generator is not None:
                torch.randperm(n, generator=draws)  # the sampler draws a second permutation, and does not use it
        parts = list(torch.split(order, self.batch_size)) if n else []
        return parts[:-1] if self.drop_last and n % self.batch_size else parts, True

    # -- cutting ---------------------------------------------------------------------------------------------------

    def _cut(self, parts: list[Tensor]) -> Iterator[Any]:
        """Make a batch for each of ``parts``. The parts must be disjoint."""
        m, threads, part, number = len(parts), kernel_threads(), {}, {}
        for kind, (start, end) in self._kinds.items():
            part[kind] = np.full(end - start, m, np.min_scalar_type(m))
            number[kind] = np.empty(end - start, index_dtype(end - start))
            for p, nodes in enumerate(parts):
                own = self._own(nodes, kind).numpy()
                part[kind][own] = p
                number[kind][own] = np.arange(len(own))
        edges, kept = self._edges(), []
        for store, (source, target) in edges:
            more = self.return_ids or any(key != "edge_index" and store.is_edge_attr(key) for key in store)
            tail, _, head = store._key or _ONLY
            kept.append(inside(source.numpy(), target.numpy(), part[tail], part[head], m, more, threads))
        for nodes in parts:
            yield self._batch(nodes, edges, [result.pop(0) for result in kept], number)

    def _own(self, nodes: Tensor, kind: Any) -> Tensor:
        """Those of ``nodes`` that have the type ``kind``, as indices within this type."""
        if len(self._kinds) == 1:
            return nodes
        start, end = self._kinds[kind]
        return nodes[(nodes >= start) & (nodes < end)] - start

    def _edges(self) -> list[tuple[Any, Tensor]]:
        """The current edges of each edge type of ``data``, on the CPU. Edges are checked only if they have changed
        since the last call.

        No numpy array of the edges is kept, since ``share_memory_`` frees the memory of such an array.
        """
        found = []
        for store in self.data.edge_stores:
            if "edge_index" in store:
                edges = store.edge_index
                found.append((store, edges.detach().cpu()))
                version = 0 if edges.is_inference() else edges._version
                before = self._checked.get(store._key)
                if before is None or before[0] is not edges or before[1] != version:
                    tail, _, head = store._key or _ONLY
                    sizes = [end - start for start, end in (self._kinds[tail], self._kinds[head])]
                    _check(found[-1][1].numpy(), sizes, store._key)
                    self._checked[store._key] = edges, version
            elif "adj_t" in store or "adj" in store:
                raise GraphError("RandomNodeLoader reads edge_index, and these edges are in a sparse matrix (adj_t)")
        return found

    def _batch(
        self, nodes: Tensor, edges: list[tuple[Any, Tensor]], kept: list[Inside], number: dict[Any, np.ndarray]
    ) -> Any:
        """Make the batch of a part. The batch is equal to the result of the method ``subgraph`` of PyG's ``Data`` or
        ``HeteroData``.
        """
        out = copy.copy(self.data)
        for store in self.data.node_stores:
            new, own = out if store._key is None else out[store._key], self._own(nodes, store._key)
            for key, value in store.items():
                if key == "num_nodes":
                    new.num_nodes = len(own)
                elif key != "edge_index" and store.is_node_attr(key):
                    new[key] = _pick(value, own, self._dim(key, value))
            if self.return_ids and "n_id" not in store:
                new.n_id = own
        for (store, (source, target)), result in zip(edges, kept, strict=True):
            new, (tail, _, head) = out if store._key is None else out[store._key], store._key or _ONLY
            ends = result.numbered(source.numpy(), target.numpy(), number[tail], number[head], kernel_threads())
            new.edge_index = torch.from_numpy(ends).to(store.edge_index.device)
            if result.places is None:
                continue
            ids = torch.from_numpy(result.places)
            for key, value in store.items():
                of_nodes = store._key is None and store.is_node_attr(key)
                if key != "edge_index" and store.is_edge_attr(key) and not of_nodes:
                    dim = self._dim(key, value)
                    count = value.shape[dim] if hasattr(value, "shape") else len(value)
                    if count != len(source):
                        raise GraphError(f"{key} has {count} entries for {len(source)} edges")
                    new[key] = _pick(value, ids, dim)
            if self.return_ids and "e_id" not in store:
                new.e_id = ids.to(torch.int64)
        return out

    def _dim(self, key: str, value: Any) -> int:
        """The dimension along which PyG slices an attribute. For a ``HeteroData``, it is always the first dimension."""
        return int(self.data.__cat_dim__(key, value)) if isinstance(self.data, Data) else 0


class LinkRandomNodeLoader(RandomNodeLoader, OwnStreams):
    """``RandomNodeLoader`` for link prediction: each batch also has ``edge_label_index`` and ``edge_label``, with links
    inside its part.

    Positives (1) are the edges of the part. For the negatives (0), the same number of random node pairs is drawn in the
    part, and edges and pairs of equal nodes are removed. ``edge_share`` gives the probability that an edge is in an
    epoch.

    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> next(iter(LinkRandomNodeLoader(data, num_parts=1))).edge_label.sum()
    tensor(6.)
    """

    def _batch(self, nodes: Tensor, *cut: Any) -> Any:
        out, n = super()._batch(nodes, *cut), len(nodes)
        if not isinstance(out, Data):
            raise GraphError("LinkRandomNodeLoader takes a Data: a HeteroData does not define which links to predict")
        edges = out.edge_index.to(torch.int64)
        with self._stream(nodes):
            pairs = torch.randint(n, edges.shape).to(edges.device)
        out.edge_label_index = torch.cat([edges, without_edge(pairs, edges, n)], 1)
        out.edge_label = (torch.arange(out.edge_label_index.shape[1], device=edges.device) < edges.shape[1]).float()
        return out


def edge_share(num_nodes: int, num_parts: int) -> float:
    """The probability that both ends of an edge are in the same part, if ``shuffle=True``. If part k has s_k nodes,
    this probability is Σ_k s_k (s_k - 1) / (N (N - 1)).

    >>> edge_share(4, 2)
    0.3333333333333333
    """
    size = math.ceil(num_nodes / num_parts)
    sizes = [min(size, num_nodes - start) for start in range(0, num_nodes, size)]
    return sum(s * (s - 1) for s in sizes) / max(1, num_nodes * (num_nodes - 1))


_ONLY = (None, None, None)
"""The edge type of a ``Data``."""


def _check(rows: np.ndarray, sizes: list[int], kind: Any) -> None:
    """Raise an error if ``rows`` is not a valid ``edge_index``, or if an end of an edge is not a node of its type."""
    if rows.ndim != 2 or rows.shape[0] != 2 or rows.dtype.kind not in "iu":
        raise GraphError(f"edge_index must be whole numbers of shape (2, E), got {rows.dtype} {rows.shape}")
    where = "" if kind is None else f" of type {kind}"
    for size, row in zip(sizes, rows, strict=True):
        check_nodes(row, size, f"edge {{}}{where} has the end")


def _pick(value: Any, ids: Tensor, dim: int) -> Any:
    """The entries of a node- or edge-level attribute with the indices ``ids``."""
    if isinstance(value, np.ndarray):
        return np.take(value, ids.numpy(), axis=dim)
    return select(value, ids.to(value.device) if isinstance(value, Tensor) else ids, dim)
