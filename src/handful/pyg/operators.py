"""The operators of pyg-lib and torch-sparse that PyG's loaders call, implemented with handful's kernels.

Schemas, defaults, results and errors are as in pyg-lib 0.9. Two options that pyg-lib does not support yet also work:
``directed=False``, and walks with p or q other than 1. Random numbers come from torch's generator, so
``torch.manual_seed`` determines the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch_geometric.typing
from torch import Tensor

from handful.errors import HandfulError
from handful.graph import check_edges
from handful.kernels.csr import coo_to_csr, first_outside, rises, starts
from handful.kernels.neighbors import NODE, TREE, Known
from handful.kernels.threads import get_threads
from handful.kernels.walks import walk
from handful.pyg.sampling import Counts, Relation, Relations, Sampled, Seeds, induced, layered, sample
from handful.samplers.cluster import cut_by_metis

EdgeType = tuple[str, str, str]
Tensors = Mapping[str, Tensor]
Found = dict[str, Tensor]
_ONLY: EdgeType = ("", "", "")
"""The edge type of a homogeneous graph."""


class OperatorError(HandfulError, RuntimeError):
    """The error for invalid arguments of an operator; as in pyg-lib, it is also a ``RuntimeError``."""


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise OperatorError(otherwise)


def _ints(name: str, given: Tensor, dtype: torch.dtype | None = None) -> np.ndarray:
    """Check an integer vector, and return it as an array without a copy."""
    whole = given.dim() == 1 and not given.is_floating_point() and given.dtype != torch.bool
    _check(given.device.type == "cpu", f"'{name}' must be a CPU tensor, got one on {given.device}")
    _check(whole, f"'{name}' must be a vector of whole numbers, got {given.dtype} {tuple(given.shape)}")
    same = dtype is None or given.dtype == dtype
    _check(same, f"expected '{name}' to have the dtype of the seeds, {dtype}, got {given.dtype}")
    _check(given.is_contiguous(), f"Non-contiguous '{name}'")
    return given.detach().numpy()


def _longs(name: str, given: Tensor, count: int | None = None) -> np.ndarray:
    """Check an int64 vector (times, or weights for METIS), and return it as an array. If ``count`` is given, the vector
    must have this length.
    """
    _check(given.dtype == torch.int64, f"expected '{name}' to be int64 (Long), got {given.dtype}")
    _check(count is None or given.numel() == count, f"'{name}' has {given.numel()} entries for {count}")
    return _ints(name, given)


def _weights(given: Tensor, edges: int) -> np.ndarray:
    fits = given.device.type == "cpu" and given.shape == (edges,) and given.is_contiguous()
    _check(fits, f"'edge_weight' must be a contiguous CPU vector of {edges}, got {tuple(given.shape)}")
    return given.detach().to(torch.float32 if given.dtype == torch.float32 else torch.float64).numpy()


def _seeds(given: Tensor, rows: int = NODE + 1) -> np.ndarray:
    ids = _ints("seed", given).astype(np.int64, copy=False)
    _check(first_outside(ids, rows) < 0, f"'seed' has a node outside 0 to {rows - 1}")
    return ids


def _csr(rowptr: Tensor, col: Tensor, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    pointers, ends = _ints("rowptr", rowptr, dtype), _ints("col", col, dtype)
    _check(len(pointers) > 0, "'rowptr' is empty: it has one entry more than there are nodes")
    return pointers, ends


def kernel_threads() -> int:
    """The number of threads for kernels; 1 in a worker of a ``DataLoader``, as for torch's own operators."""
    return 1 if torch.utils.data.get_worker_info() is not None else get_threads()


def _key() -> int:
    return int(torch.randint(2**63 - 1, ()))


def _run(operator: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call ``operator``, and convert its ``IndexError`` and ``ValueError`` to an ``OperatorError``."""
    try:
        return operator(*args, **options, threads=kernel_threads())
    except (IndexError, ValueError) as error:
        raise OperatorError(str(error)) from None


def _tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(array).to(dtype)


# -- pyg ---------------------------------------------------------------------------------------------------------------


def neighbor_sample(
    rowptr: Tensor,
    col: Tensor,
    seed: Tensor,
    num_neighbors: Sequence[int],
    node_time: Tensor | None = None,
    edge_time: Tensor | None = None,
    seed_time: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *flags: Any,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, list[int], list[int]]:
    """Sample the neighbourhood of ``seed``. The result is: rows, columns, nodes, edge ids, and the numbers of nodes and
    of edges per hop.

    See ``handful.pyg.sampling.sample``. ``flags`` and ``options`` are the arguments of ``hetero_neighbor_sample`` from
    ``csc`` to the last one. If ``directed`` is false, the result contains all edges between the sampled nodes, and the
    list of edges per hop is empty.

    >>> rowptr, col = torch.tensor([0, 2, 2, 2]), torch.tensor([1, 2])
    >>> neighbor_sample(rowptr, col, torch.tensor([0]), [-1])[2:]
    (tensor([0, 1, 2]), tensor([0, 1]), [1, 2], [2])
    """
    name = "__".join(_ONLY)
    of_kind = [("", node_time), (name, edge_time), ("", seed_time), (name, edge_weight)]
    more: list[Any] = [None if given is None else {kind: given} for kind, given in of_kind]
    rows, cols, nodes, places, per_node, per_edge = hetero_neighbor_sample(
        [""], [_ONLY], {name: rowptr}, {name: col}, {"": seed}, {name: num_neighbors}, *more, *flags, **options
    )
    return rows[name], cols[name], nodes[""], places[name] if places else None, per_node[""], per_edge[name]


def hetero_neighbor_sample(
    node_types: Sequence[str],
    edge_types: Sequence[EdgeType],
    rowptr_dict: Tensors,
    col_dict: Tensors,
    seed_dict: Tensors,
    num_neighbors_dict: Counts,
    node_time_dict: Tensors | None = None,
    edge_time_dict: Tensors | None = None,
    seed_time_dict: Tensors | None = None,
    edge_weight_dict: Tensors | None = None,
    csc: bool = False,
    replace: bool = False,
    directed: bool = True,
    disjoint: bool = False,
    temporal_strategy: str = "uniform",
    return_edge_id: bool = True,
) -> tuple[Found, Found, Found, Found | None, dict[str, list[int]], dict[str, list[int]]]:
    """``neighbor_sample`` for several node and edge types. The key of an edge type is ``source__relation__target``."""
    timed = node_time_dict is not None or edge_time_dict is not None
    _check(disjoint or not timed, "Temporal sampling needs to create disjoint subgraphs")
    one_level = node_time_dict is None or edge_time_dict is None
    _check(one_level, "Only one of node-level or edge-level sampling is supported")
    _check(edge_time_dict is None or seed_time_dict is not None, "Seed time needs to be specified")
    _check(edge_weight_dict is None or not timed, "Biased temporal sampling not yet supported")
    known_strategy = temporal_strategy in ("uniform", "last")
    _check(known_strategy, f"No valid temporal strategy found: 'uniform' or 'last', got {temporal_strategy!r}")
    _check(directed or not disjoint, "Disjoint subgraphs not yet supported where edges are not directed")
    dtype = next((seed.dtype for seed in seed_dict.values()), torch.int64)
    relations = _relations(edge_types, rowptr_dict, col_dict, num_neighbors_dict, dtype, csc)
    seeds = _seeds_of(node_types, relations, seed_dict)
    trees = sum(map(len, seeds.values()))
    _check(not disjoint or trees < 1 << (63 - TREE), f"disjoint sampling takes fewer than {1 << (63 - TREE)} seeds")
    seed_time = _seed_times(seeds, seed_time_dict, node_time_dict)
    weights, edge_times, node_times = (given or {} for given in (edge_weight_dict, edge_time_dict, node_time_dict))
    for name, relation in relations.items():
        relation.replace, relation.latest, relation.seed_time = replace, temporal_strategy == "last", seed_time
        if name in weights:
            relation.weight = _weights(weights[name], len(relation.col))
        if name in edge_times:
            relation.time = _longs("edge_time", edge_times[name], len(relation.col))
        elif relation.cols in node_times:
            relation.time, relation.of_nodes = _longs("node_time", node_times[relation.cols]), True
    sampled: Sampled = _run(sample, node_types, relations, seeds, key=_key(), disjoint=disjoint)
    edges = sampled.edges
    per_edge = {name: [len(place) for *_, place in hops] if directed else [] for name, hops in edges.items()}
    if not directed:
        known = sampled.known
        edges = {name: [_run(induced, r, known[r.rows], known[r.cols])] for name, r in relations.items()}
    nodes = {kind: _tensor(sampled.nodes(kind, with_trees=disjoint), dtype) for kind in node_types}
    rows, cols, places = _edges(edges, csc, dtype)
    return rows, cols, nodes, places if return_edge_id else None, sampled.nodes_per_hop, per_edge


def _relations(
    edge_types: Sequence[EdgeType], rowptrs: Tensors, cols: Tensors, fanouts: Counts, dtype: Any, csc: bool
) -> dict[str, Relation]:
    relations = {}
    for edge_type in edge_types:
        name = "__".join(edge_type)
        complete = name in rowptrs and name in cols and name in fanouts
        _check(complete, f"the edge type {edge_type} has no rowptr, no col or no num_neighbors")
        tail, head = (edge_type[2], edge_type[0]) if csc else (edge_type[0], edge_type[2])
        rowptr, col = _csr(rowptrs[name], cols[name], dtype)
        relations[name] = Relation(rows=tail, cols=head, rowptr=rowptr, col=col, fanout=fanouts[name])
    hops = {len(relation.fanout) for relation in relations.values()}
    _check(len(hops) <= 1, "'num_neighbors' must have the same number of hops for all edge types")
    return relations


def _seeds_of(kinds: Sequence[str], relations: Relations, seeds: Tensors) -> dict[str, np.ndarray]:
    rows = {relation.rows: len(relation.rowptr) - 1 for relation in relations.values()}
    for kind in seeds:
        _check(kind in kinds, f"there are seeds of type {kind!r}, and the node types are {list(kinds)}")
    return {kind: _seeds(seed, rows.get(kind, NODE + 1)) for kind, seed in seeds.items()}


def _seed_times(seeds: Seeds, seed_time_dict: Tensors | None, node_time_dict: Tensors | None) -> np.ndarray | None:
    """The times of all seeds, in order: the given seed times, or, if there are none, the times of the seed nodes."""
    given = seed_time_dict if seed_time_dict is not None else node_time_dict
    if given is None:
        return None
    result = [np.empty(0, np.int64)]
    for kind, ids in seeds.items():
        _check(kind in given, f"the seeds of type {kind!r} have no time: give 'seed_time'")
        if seed_time_dict is not None:
            result.append(_longs("seed_time", given[kind], len(ids)))
        else:
            time, last = _longs("node_time", given[kind]), ids.max(initial=-1)
            _check(last < len(time), f"'node_time' has {len(time)} entries and there is a seed {last}")
            result.append(time[ids])
    return np.concatenate(result)


def _edges(edges: Mapping[str, list[Any]], csc: bool, dtype: torch.dtype) -> tuple[Found, Found, Found]:
    """The rows, columns and edge indices of all hops, by relation. If ``csc``, rows and columns are swapped: the rows
    are the sampled neighbours.
    """
    none = np.empty((3, 0), np.int64)
    joined = {name: [*map(np.concatenate, zip(none, *hops, strict=True))] for name, hops in edges.items()}
    row, col, place = ({name: _tensor(arrays[k], dtype) for name, arrays in joined.items()} for k in range(3))
    return (col, row, place) if csc else (row, col, place)


def subgraph(
    rowptr: Tensor, col: Tensor, nodes: Tensor, return_edge_id: bool = True
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The CSR of the induced subgraph of ``nodes``, and the ids of its edges.

    >>> subgraph(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0]), torch.tensor([2, 0]))
    (tensor([0, 1, 2]), tensor([1, 0]), tensor([2, 1]))
    """
    pointers, ends = _csr(rowptr, col, nodes.dtype)
    ids = _seeds(nodes, len(rowptr) - 1)
    known = Known(ids)
    row, result, place = _run(induced, Relation(rows="", cols="", rowptr=pointers, col=ends), known, known)
    ptr = starts(np.bincount(row, minlength=len(ids)))
    edge_id = _tensor(place, nodes.dtype) if return_edge_id else None
    return _tensor(ptr, nodes.dtype), _tensor(result, nodes.dtype), edge_id


def random_walk(rowptr: Tensor, col: Tensor, seed: Tensor, walk_length: int, p: float = 1.0, q: float = 1.0) -> Tensor:
    """The nodes of node2vec's random walks, ``(seeds, walk_length + 1)``; see ``handful.kernels.walks.walk``.

    >>> random_walk(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2]), torch.tensor([0]), 3)
    tensor([[0, 1, 2, 2]])
    """
    _check(p > 0 and q > 0, f"p and q must be positive, got {p} and {q}")
    _check(walk_length >= 0, f"a walk has 0 steps or more, got {walk_length}")
    arrays = *_csr(rowptr, col, seed.dtype), _seeds(seed, len(rowptr) - 1)
    return _tensor(_run(walk, *arrays, walk_length, _key(), p, q), seed.dtype)


def metis(
    rowptr: Tensor,
    col: Tensor,
    num_partitions: int,
    node_weight: Tensor | None = None,
    edge_weight: Tensor | None = None,
    recursive: bool = False,
) -> Tensor:
    """Divide the nodes into parts with METIS, and return the part of every node. Edges are treated as undirected, and
    self-loops are ignored.

    >>> ring = torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> metis(torch.arange(0, 9, 2), ring, 2).bincount()
    tensor([2, 2])
    """
    dtype = rowptr.dtype
    pointers, ends = _csr(rowptr, col, dtype)
    n = len(pointers) - 1
    _check(1 <= num_partitions <= max(1, n), f"cannot cut {n} nodes into {num_partitions} parts")
    _check(rises(pointers, len(ends)), "'rowptr' must ascend from 0 to the number of edges")
    _check(first_outside(ends, n) < 0, f"'col' has a node outside 0 to {n - 1}")
    if num_partitions == 1:
        return torch.zeros(n, dtype=dtype)
    of_edges = None if edge_weight is None else _longs("edge_weight", edge_weight, len(ends))
    of_nodes = None if node_weight is None else _longs("node_weight", node_weight, n)
    return _tensor(cut_by_metis(pointers, ends, num_partitions, of_edges, of_nodes, recursive), dtype)


# -- torch_sparse ------------------------------------------------------------------------------------------------------


def hgt_sample(
    colptr_dict: Tensors, row_dict: Tensors, input_node_dict: Tensors, num_samples_dict: Counts, num_hops: int
) -> tuple[Found, Found, Found, Found]:
    """torch-sparse's ``hgt_sample``: nodes by node type, and rows, columns and edge ids by edge type; see
    ``handful.pyg.sampling.layered``.
    """
    names = [name.split("__") for name in colptr_dict]
    edge_types = [(parts[0], "__".join(parts[1:-1]), parts[-1]) for parts in names]
    kinds = sorted({kind for parts in names for kind in (parts[0], parts[-1])} | set(num_samples_dict))
    dtype = next((colptr.dtype for colptr in colptr_dict.values()), torch.int64)
    relations = _relations(edge_types, colptr_dict, row_dict, dict.fromkeys(colptr_dict, ()), dtype, csc=True)
    for kind in kinds:
        enough = len(num_samples_dict.get(kind, ())) >= num_hops
        _check(enough, f"'num_samples' has fewer than {num_hops} entries for the node type {kind!r}")
    seeds = _seeds_of(kinds, relations, {kind: seed.to(dtype) for kind, seed in input_node_dict.items()})
    sampled: Sampled = _run(layered, kinds, relations, seeds, num_samples_dict, num_hops, key=_key())
    rows, cols, places = _edges(sampled.edges, True, dtype)
    return {kind: _tensor(sampled.nodes(kind), dtype) for kind in kinds}, rows, cols, places


def partition(rowptr: Tensor, col: Tensor, optional_value: Tensor | None, num_parts: int, recursive: bool) -> Tensor:
    """torch-sparse's ``partition``, which calls METIS."""
    weight = None if optional_value is None else optional_value.to(torch.int64)
    return metis(rowptr, col, num_parts, edge_weight=weight, recursive=recursive)


class SparseTensor(torch_geometric.typing.SparseTensor):  # type: ignore[misc]
    """The subset of torch-sparse's ``SparseTensor`` that PyG's GraphSAINT samplers use: rows, random walks and induced
    subgraphs.

    The entries are sorted by row and then by column. The class inherits from PyG's placeholder for ``SparseTensor``, so
    that PyG accepts it. All other methods raise the placeholder's errors.

    Args:
        row, col, value: the row, column and value of every entry.
        sparse_sizes: the numbers of rows and columns.

    >>> row, col = torch.tensor([[1, 0, 1], [1, 2, 0]])
    >>> matrix = SparseTensor(row, col, value=torch.tensor([5, 6, 7]), sparse_sizes=(3, 3))
    >>> matrix.coo()
    (tensor([0, 1, 1]), tensor([2, 0, 1]), tensor([6, 7, 5]))
    >>> matrix.saint_subgraph(torch.tensor([0, 1]))[0].coo()
    (tensor([1, 1]), tensor([0, 1]), tensor([7, 5]))
    """

    def __init__(self, row: Tensor, col: Tensor, value: Tensor, sparse_sizes: tuple[int, int]) -> None:
        ends = np.stack([row.numpy(), col.numpy()])
        rows, self._columns = map(int, sparse_sizes)
        check_edges(ends, max(rows, self._columns))
        rowptr, indices, order = map(torch.from_numpy, coo_to_csr(ends[0], ends[1], rows, self._columns, True))
        self._rowptr, self._col, self._value = rowptr, indices.long(), value[order]

    @property
    def storage(self) -> SparseTensor:
        """The ``storage`` attribute of torch-sparse's class; here it is the matrix itself."""
        return self

    def row(self) -> Tensor:
        """The row index of every entry."""
        return torch.repeat_interleave(self._rowptr.diff())

    def value(self) -> Tensor:
        """The value of every entry."""
        return self._value

    def rowcount(self) -> Tensor:
        """The number of entries in each row."""
        return self._rowptr.diff()

    def colcount(self) -> Tensor:
        """The number of entries in each column."""
        return torch.bincount(self._col, minlength=self._columns)

    def coo(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row, column and value of every entry."""
        return self.row(), self._col, self._value

    def saint_subgraph(self, node_idx: Tensor) -> tuple[SparseTensor, Tensor]:
        """The adjacency matrix of the subgraph induced by ``node_idx``, and the values of its entries. The nodes must
        be distinct.
        """
        rowptr, col, place = subgraph(self._rowptr, self._col, node_idx)
        size = len(node_idx), len(node_idx)
        inside = SparseTensor(torch.repeat_interleave(rowptr.diff()), col, self._value[place], size)
        return inside, inside._value

    def random_walk(self, start: Tensor, walk_length: int) -> Tensor:
        """The nodes of random walks, ``(starts, walk_length + 1)``. Each step takes an entry in the row of the current
        node, with equal probabilities.
        """
        return random_walk(self._rowptr, self._col, start, walk_length)
