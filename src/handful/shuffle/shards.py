"""A graph in shards: every rank opens only the rows of its own nodes.

A shard is a folder of ``.npy`` files and a JSON header with checksums, like a saved graph. A shard contains the rows of
consecutive nodes: their incoming edges (sources are ids of the whole graph), features, labels and masks. The header
contains the first node of every shard, and the identity of the whole graph, so that shards of two graphs are never
mixed.
"""

from __future__ import annotations

import bisect
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from handful import ranks
from handful.errors import DatasetError, GraphError, RankError
from handful.graph import MASKS, Graph
from handful.kernels import csr
from handful.kernels.gather import rows_between
from handful.kernels.sparse import dense
from handful.storage import FIELDS, HEADER, Folder, is_saved, open_arrays, read_fields, read_header, sibling

FORMAT, VERSION = "handful-shard", 1
ROWS = ("x", "y", *MASKS)
"""The arrays with a row for each node of the shard."""
ARRAYS = ("indptr", "indices", "edge_weight", *ROWS)


@dataclass(frozen=True, eq=False, repr=False)
class ShardedGraph(Graph):
    """The graph on one rank: topology and features of its own nodes, and labels and masks of all nodes.

    Methods that need the edges or the features of other ranks raise an error. ``handful.shuffle.over_ranks`` provides
    the functions for training and inference on such a graph.
    """

    cuts: tuple[int, ...] = ()
    """The first node of each rank, followed by N."""
    num_edges: int = 0
    has_loops: bool = True
    whole: Mapping[str, Any] = field(default_factory=dict)
    """The result of ``identity()`` for the whole graph."""

    @property
    def num_nodes(self) -> int:
        return self.cuts[-1]

    @property
    def begin(self) -> int:
        """The first of this rank's nodes."""
        return self.cuts[ranks.rank()]

    @cached_property
    def checksum(self) -> str:
        return str(self.whole["topology"])

    @cached_property
    def in_degree(self) -> Tensor:
        return all_rows(self.indptr.diff())

    def _refuse_edges(self) -> NoReturn:
        self._refuse("all edges in one place")

    topology = edge_index = in_weight = property(_refuse_edges)

    def identity(self) -> dict[str, Any]:
        same = {name: value for name, value in self.whole.items() if name != "positive"}
        return {**same, "metric": self.metric, **({"positive": 0} if self.positive == 0 else {})}

    def replace(self, **fields: Any) -> Graph:
        if not set(fields) <= {"name", "metric", "positive"}:
            self._refuse(f"another {', '.join(sorted(fields))}")
        return super().replace(**fields)

    def to(self, device: torch.device | str) -> Graph:
        return self if torch.device(device).type == "cpu" else self._refuse(f"device {device}")

    def _refuse(self, what: str) -> NoReturn:
        raise GraphError(f"{self.name} is in shards, which do not have {what}: use the whole graph, or shard it anew")


def all_rows(own: Tensor) -> Tensor:
    """Collect the rows of all ranks, in the order of the ranks."""
    return torch.cat(ranks.exchange([own] * ranks.size()))


# -- writing ----------------------------------------------------------------------------------------------------------


def is_sharded(path: str | Path) -> bool:
    """Whether ``path`` is a folder of shards.

    >>> is_sharded("no-such-folder")
    False
    """
    return any(Path(path).glob(f"shard-*/{HEADER}"))


def shard(graph: Graph, path: str | Path, shards: int) -> Path:
    """Write ``graph`` to the folder ``path`` in shards (``shard-0``, ``shard-1``, …), completely or not at all.

    Every shard contains consecutive nodes. Shards have about the same number of bytes. A rank needs only its own shard.

    Args:
        graph: a graph with features, labels and a split.
        path: a new folder.
        shards: the number of shards, which is also the number of ranks in training.

    Raises:
        GraphError: there are fewer nodes than shards, or features, labels or a split are missing.
        DatasetError: ``path`` already exists.

    >>> import handful as hf
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = shard(hf.load("synthetic?nodes=100&degree=4"), folder + "/halves", 2)
    ...     sorted(one.name for one in path.iterdir())
    ['shard-0', 'shard-1']
    """
    path = Path(path)
    graph.require_training()
    cuts = even_cuts(graph, shards)
    if path.exists():
        raise DatasetError(f"{path} exists: choose another place for the shards")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = sibling(path)
    said = {
        "format": FORMAT,
        "version": VERSION,
        **{name: getattr(graph, name) for name in FIELDS},
        "cuts": cuts,
        "edges": graph.num_edges,
        "loops": graph.has_loops,
        "identity": graph.identity(),
    }
    try:
        for k, (lo, hi) in enumerate(pairwise(cuts)):
            folder = Folder(aside / f"shard-{k}")
            folder.path.mkdir(parents=True)
            for name, values in _rows(graph, lo, hi).items():
                folder.write(name, values)
            folder.write_header({**said, "shard": k})
        aside.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return path


def even_cuts(graph: Graph, shards: int) -> list[int]:
    """The first node of each shard, followed by N. Shards have about the same size in bytes, and each shard has at
    least one node.
    """
    n = graph.num_nodes
    if not 1 <= shards <= n:
        raise GraphError(f"{graph.name} has {n} nodes, and cannot be cut into {shards} shards: use 1 to {n}")
    assert graph.x is not None
    row = graph.num_features * graph.x.element_size() + 16
    edge = graph.indices.element_size() + (0 if graph.edge_weight is None else 4)

    def size(v: int) -> int:
        return int(graph.indptr[v]) * edge + v * row

    ends = [bisect.bisect_left(range(n), size(n) * k / shards, key=size) for k in range(1, shards)]
    cuts = [0]
    for k, end in enumerate(ends, 1):
        cuts.append(min(max(end, cuts[-1] + 1), n - shards + k))
    return [*cuts, n]


def _rows(graph: Graph, lo: int, hi: int) -> dict[str, Tensor]:
    """The arrays of the shard with nodes ``lo`` to ``hi - 1``."""
    begin, end = int(graph.indptr[lo]), int(graph.indptr[hi])
    result = {"indptr": graph.indptr[lo : hi + 1] - begin, "indices": graph.indices[begin:end]}
    if graph.edge_weight is not None:
        result["edge_weight"] = graph.edge_weight[begin:end]
    return result | {name: dense(rows_between(getattr(graph, name), lo, hi)) for name in ROWS}


# -- opening ----------------------------------------------------------------------------------------------------------


def open_shards(path: str | Path) -> ShardedGraph:
    """Open the graph in the folder ``path``. Each rank opens its own shard; all ranks must call this function together.

    Raises:
        DatasetError: the shard is missing, truncated or changed, or the number of ranks is not the number of shards.
        RankError: the shards of the ranks belong to different graphs.
    """
    path = Path(path)
    with ranks.agreed():
        header = _header(path)
        own = _open_rows(path / f"shard-{ranks.rank()}", header)
    said = [header["cuts"], header["identity"]]
    for other, theirs in enumerate(ranks.gather(said)):
        if theirs != json.loads(json.dumps(said)):
            both = f"{path} of rank {ranks.rank()} and of rank {other}"
            raise RankError(f"{both} are of different graphs: shard one anew")
    everyones = {name: all_rows(own[name]) for name in ("y", *MASKS)}
    return ShardedGraph(
        **{**own, **everyones, **read_fields(header)},
        checked=True,
        cuts=tuple(header["cuts"]),
        num_edges=header["edges"],
        has_loops=header["loops"],
        whole=header["identity"],
    )


def _header(path: Path) -> dict[str, Any]:
    """Read the header of this rank's shard."""
    folder, count = path / f"shard-{ranks.rank()}", ranks.size()
    if not is_saved(folder):
        there = len(list(path.glob(f"shard-*/{HEADER}")))
        raise DatasetError(f"{folder} is missing: {path} has {there} shards here, and there are {count} ranks")
    header = read_header(folder, FORMAT, VERSION)
    kinds = {"cuts": list, "edges": int, "loops": bool, "identity": dict, "shard": int}
    fits = all(type(header.get(name)) is kind for name, kind in kinds.items())
    fits = fits and set(ARRAYS) - {"edge_weight"} <= set(header["arrays"]) <= set(ARRAYS)
    cuts = header["cuts"] if fits else []
    if not all(type(cut) is int for cut in cuts) or len(cuts) < 2 or cuts[0] != 0 or cuts != sorted(set(cuts)):
        raise DatasetError(f"{folder / HEADER} is not the header of a shard: shard the graph anew")
    if (shards := len(cuts) - 1) != count:
        how = f"start {shards} (--processes or torchrun), or shard the graph anew"
        raise DatasetError(f"{path} has {shards} shards, and the number of ranks is {count}: {how}")
    if header["shard"] != ranks.rank():
        raise DatasetError(f"{folder} holds shard {header['shard']}: give every rank its own")
    return header


def _open_rows(folder: Path, header: dict[str, Any]) -> dict[str, Tensor]:
    """Map the arrays of a shard, and check that they are consistent, since kernels do not check indices."""
    arrays, confirm = open_arrays(folder, header["arrays"])
    own = {name: torch.as_tensor(array) for name, array in arrays.items()}
    cuts, k, indptr, indices, y = header["cuts"], header["shard"], own["indptr"], own["indices"], own["y"]
    rows = cuts[k + 1] - cuts[k]
    classes = int(header.get("num_classes") or 0)  # a label is one of the classes, or -1 if it is unknown
    fits = (
        len(indptr) == rows + 1
        and indptr.dtype == torch.int64
        and indices.ndim == 1
        and indices.dtype in (torch.int32, torch.int64)
        and all(len(own[name]) == rows for name in ROWS)
        and all(own[name].dtype == torch.bool for name in MASKS)
        and ("edge_weight" not in own or own["edge_weight"].shape == indices.shape)
        and csr.rises(indptr.numpy(), len(indices))
        and csr.first_outside(indices.numpy(), cuts[-1]) < 0
        and (y.is_floating_point() or (y.dtype == torch.int64 and csr.first_outside(y.numpy() + 1, classes + 1) < 0))
    )
    if not fits:
        raise DatasetError(f"{folder} is not a valid shard: shard the graph anew")
    if confirm is not None:
        confirm()
    return own
